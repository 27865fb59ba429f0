/*
 * clock.c: gives the process it is preloaded into (LD_PRELOAD) the wall clock of a test. The test keeps the time in a
 * file, and every reading of the clock looks there.
 *
 *   RATION_CLOCK_FILE   path of the file: eight bytes, microseconds since 1970 as an integer of this machine; 0 or
 *                       without the variable: the real time
 *
 * Only the wall clock is the test's. CLOCK_MONOTONIC stays real: a server waits by it for its sockets and timers, and
 * would stand still with it.
 *
 * The real time is asked of the kernel and not of the C library's own functions: to find those (dlsym) takes memory, and
 * the allocator of a server asks for the time while it starts. For the same reason nothing here allocates or runs at load.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *mapped;

/* fail ends the process: a server that quietly fell back to the real time might pass a test that it should fail. */
static void fail(const char *why)
{
	syscall(SYS_write, STDERR_FILENO, why, strlen(why));
	syscall(SYS_exit_group, 127);
}

/* clock_file maps the file, at the first call that finds the variable; NULL before and without it. */
static const int64_t *clock_file(void)
{
	const int64_t *file = __atomic_load_n(&mapped, __ATOMIC_ACQUIRE);
	if (file != NULL)
		return file;
	const char *path = getenv("RATION_CLOCK_FILE");
	if (path == NULL)
		return NULL;
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail("clock: cannot open RATION_CLOCK_FILE\n");
	long at = syscall(SYS_mmap, NULL, sizeof *file, PROT_READ, MAP_SHARED, fd, 0);
	if (at == -1)
		fail("clock: cannot map RATION_CLOCK_FILE\n");
	syscall(SYS_close, fd);
	/* Two threads may both map it. Either mapping will do, and the other one harms nobody. */
	file = (const int64_t *)at;
	__atomic_store_n(&mapped, file, __ATOMIC_RELEASE);
	return file;
}

/* test_micros is the test's time in microseconds since 1970, or 0 where the real time counts. */
static int64_t test_micros(void)
{
	const int64_t *file = clock_file();
	return file == NULL ? 0 : __atomic_load_n(file, __ATOMIC_ACQUIRE);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int64_t micros = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? test_micros() : 0;
	if (micros == 0)
		return (int)syscall(SYS_clock_gettime, clock, now);
	now->tv_sec = micros / 1000000;
	now->tv_nsec = micros % 1000000 * 1000;
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec at;
	if (clock_gettime(CLOCK_REALTIME, &at) != 0)
		return -1;
	now->tv_sec = at.tv_sec;
	now->tv_usec = at.tv_nsec / 1000;
	if (zone != NULL)
		*(struct timezone *)zone = (struct timezone){0};
	return 0;
}

time_t time(time_t *now)
{
	struct timespec at;
	if (clock_gettime(CLOCK_REALTIME, &at) != 0)
		return -1;
	if (now != NULL)
		*now = at.tv_sec;
	return at.tv_sec;
}
