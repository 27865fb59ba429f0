package integration

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/moby/moby/api/types/container"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/go-ration/ration/internal/conformance"
)

// Clock is the wall clock of one server: TIME, and every expiry. It stands still until the test moves it, forth or back. It
// is the server's only clock, so one test uses it at a time.
type Clock struct {
	micros *atomic.Int64 // since 1970, in memory that the server reads
}

// Set sets the clock, to the microsecond below.
func (c *Clock) Set(now time.Time) { c.micros.Store(now.UnixMicro()) }

// Advance moves the clock on, or back where d is negative.
func (c *Clock) Advance(d time.Duration) { c.Set(c.Now().Add(d)) }

// Now is the server's time.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.micros.Load()) }

// The names of clock/clock.c, and where a container finds its library and the clock's file.
const (
	clockVariable = "RATION_CLOCK_FILE"
	clockFolder   = "/test-clock"
	clockLibrary  = "clock.so"
	clockFile     = "time"
)

//go:embed clock/clock.c
var clockSource []byte

// startServerWithClock starts a server on a clock that shows start. It skips the test where there is no C compiler, and
// where CI=true fails it.
func startServerWithClock(
	t *testing.T, image string, start time.Time, options ...testcontainers.ContainerCustomizer,
) (*server, *Clock) {
	t.Helper()
	clock, onClock := newContainerClock(t, start)
	return startServer(t, image, append([]testcontainers.ContainerCustomizer{onClock}, options...)...), clock
}

// newContainerClock makes a clock that shows start, and the option by which all processes of a container run on it.
func newContainerClock(t *testing.T, start time.Time) (*Clock, testcontainers.CustomizeRequestOption) {
	t.Helper()
	clock, folder := newClockFolder(t, start)
	return clock, func(request *testcontainers.GenericContainerRequest) error {
		return errors.Join(
			testcontainers.WithEnv(clockEnvironment)(request),
			testcontainers.WithHostConfigModifier(func(config *container.HostConfig) {
				config.Binds = append(config.Binds, folder+":"+clockFolder+":ro")
			})(request))
	}
}

// clockEnvironment makes all processes of a container run on the clock whose folder is mounted there.
var clockEnvironment = map[string]string{
	"LD_PRELOAD":  clockFolder + "/" + clockLibrary,
	clockVariable: clockFolder + "/" + clockFile,
}

// newClockFolder makes a clock that shows start, and the folder that containers mount.
func newClockFolder(t *testing.T, start time.Time) (clock *Clock, folder string) {
	t.Helper()
	folder = t.TempDir()
	// Images may run their servers as a user of their own.
	require.NoError(t, os.Chmod(folder, 0o755))
	buildClock(t, filepath.Join(folder, clockLibrary))
	clock = newClock(t, filepath.Join(folder, clockFile))
	clock.Set(start)
	return clock, folder
}

// tick lets the clock go on until the function it answers is called, or the test ends: servers of a cluster that come to know
// each other need one that does.
func (c *Clock) tick(t *testing.T) (stop func()) {
	t.Helper()
	stopped := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		for {
			select {
			case <-stopped:
				return
			case <-time.After(10 * time.Millisecond):
				c.Advance(10 * time.Millisecond)
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(stopped)
		ticking.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// buildClock compiles clock/clock.c. Without the C library's start files and version marks it loads on every Linux of this
// machine's kind, whatever this machine was built from.
func buildClock(t *testing.T, library string) {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" {
		const missing = "a server on the test's clock needs Linux and a C compiler, cc"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip("NOT TESTED: " + missing)
	}
	source := filepath.Join(t.TempDir(), "clock.c")
	require.NoError(t, os.WriteFile(source, clockSource, 0o600))
	command := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-O2", "-nostdlib", "-o", library, source)
	printed, err := command.CombinedOutput()
	require.NoError(t, err, "%s: %s", command, printed)
}

// newClock makes a Clock's file and keeps it in memory, so that a time is set at once and whole.
func newClock(t *testing.T, path string) *Clock {
	t.Helper()
	const size = int(unsafe.Sizeof(atomic.Int64{}))
	require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
	require.NoError(t, os.Chmod(path, 0o644))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	memory, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Munmap(memory) })
	return &Clock{micros: (*atomic.Int64)(unsafe.Pointer(&memory[0]))}
}

// TestClock holds the clock to what all other tests on it rely on.
func TestClock(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s, clock := startServerWithClock(t, image, conformance.T0)
		t.Run("TIME", func(t *testing.T) { testServerTime(t, s, clock) })
		t.Run("expiry", func(t *testing.T) { testExpiry(t, s, clock) })
		t.Run("expiry set back", func(t *testing.T) { testExpirySetBack(t, s, clock) })
		t.Run("expiry unasked", func(t *testing.T) { testExpiryUnasked(t, s, clock) })
	})
}

// TIME is the clock to the microsecond, forth and back, and so it is inside a script.
func testServerTime(t *testing.T, s *server, clock *Clock) {
	t0 := conformance.T0
	for _, now := range []time.Time{
		t0,
		t0.Add(5 * time.Microsecond),
		t0.Add(999_999 * time.Microsecond),
		t0.Add(365 * 24 * time.Hour),
		t0.Add(-time.Hour),
		time.UnixMicro(1),
		time.Date(2262, time.April, 11, 0, 0, 0, 0, time.UTC),
		t0.Add(-time.Microsecond),
	} {
		clock.Set(now)
		require.Equal(t, now.UnixMicro(), clock.Now().UnixMicro())
		got, err := s.rdb.Time(t.Context()).Result()
		require.NoError(t, err)
		require.Equal(t, now.UnixMicro(), got.UnixMicro())
		inScript, err := s.rdb.Eval(t.Context(), `
			local t = redis.call('TIME')
			return { tonumber(t[1]), tonumber(t[2]) }`, nil).Int64Slice()
		require.NoError(t, err)
		require.Equal(t, []int64{now.UnixMicro() / 1_000_000, now.UnixMicro() % 1_000_000}, inScript)
	}
	before := clock.Now()
	clock.Advance(1500 * time.Microsecond)
	clock.Advance(-500 * time.Microsecond)
	require.Equal(t, time.Millisecond, clock.Now().Sub(before))
}

// A key lives until the millisecond of its expiry, and no longer than that millisecond, in which the server deletes it in
// passing, but still shows it to whoever comes first.
func testExpiry(t *testing.T, s *server, clock *Clock) {
	ctx, t0 := t.Context(), conformance.T0
	end := t0.Add(time.Second)
	for name, set := range map[string]func(key string) error{
		"PX":   func(key string) error { return s.rdb.Do(ctx, "set", key, "v", "px", 1000).Err() },
		"PXAT": func(key string) error { return s.rdb.Do(ctx, "set", key, "v", "pxat", end.UnixMilli()).Err() },
		"PEXPIRE": func(key string) error {
			return errors.Join(s.rdb.Set(ctx, key, "v", 0).Err(), s.rdb.PExpire(ctx, key, time.Second).Err())
		},
		"PEXPIREAT": func(key string) error {
			return errors.Join(s.rdb.Set(ctx, key, "v", 0).Err(), s.rdb.PExpireAt(ctx, key, end).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			key := freshPrefix()
			clock.Set(t0)
			require.NoError(t, set(key))
			require.Equal(t, end.UnixMilli(), s.rdb.Do(ctx, "pexpiretime", key).Val())
			for _, c := range []struct {
				at   time.Duration
				want []int64 // PTTL; -2: the key is gone
			}{
				{0, []int64{1000}},
				{999 * time.Millisecond, []int64{1}},
				{time.Second - time.Microsecond, []int64{1}},
				{time.Second, []int64{0, -2}},
				{time.Second + 999*time.Microsecond, []int64{0, -2}},
				{time.Second + time.Millisecond, []int64{-2}},
			} {
				clock.Set(t0.Add(c.at))
				require.Contains(t, c.want, s.rdb.Do(ctx, "pttl", key).Val(), "at +%v", c.at)
				if len(c.want) == 1 {
					require.Equal(t, c.want[0] >= 0, s.rdb.Exists(ctx, key).Val() == 1, "at +%v", c.at)
				}
			}
		})
	}
}

// Where the clock goes back, so do the lifetimes: an expiry is a moment.
func testExpirySetBack(t *testing.T, s *server, clock *Clock) {
	ctx, key := t.Context(), freshPrefix()
	clock.Set(conformance.T0)
	require.NoError(t, s.rdb.Do(ctx, "set", key, "v", "px", 1000).Err())
	clock.Advance(-time.Hour)
	require.Equal(t, time.Hour.Milliseconds()+1000, s.rdb.Do(ctx, "pttl", key).Val())
	clock.Advance(time.Hour)
	require.EqualValues(t, 1000, s.rdb.Do(ctx, "pttl", key).Val())
}

// The server's own chores go on, by the test's clock: a key that nobody asks for is deleted when its time has come, and
// not while the clock stands still.
func testExpiryUnasked(t *testing.T, s *server, clock *Clock) {
	clock.Set(conformance.T0)
	rdb := s.newRedis(t, func(o *redis.Options) { o.DB = 9 })
	require.NoError(t, rdb.Do(t.Context(), "set", "key", "v", "px", 1000).Err())
	require.EqualValues(t, 1, rdb.DBSize(t.Context()).Val())
	clock.Advance(time.Second + time.Millisecond)
	await(t, "the key to be deleted", func(ctx context.Context) error {
		size, err := rdb.DBSize(ctx).Result()
		if err == nil && size > 0 {
			err = errors.New("it is still there")
		}
		return err
	})
}
