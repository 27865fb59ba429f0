//go:build !race

package ration_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// What a decision may allocate at one caller, all of go-redis included. For a key that was not asked about lately its stored
// form is built, and remembered.
const (
	maxAllocs, maxBytes       = 6, 448
	newKeyAllocs, newKeyBytes = 3, 144
)

//nolint:paralleltest // counts the allocations of the process
func TestAllocations(t *testing.T) {
	for _, c := range []struct {
		plan  ration.Plan
		reply string
	}{
		{ration.FixedWindow{Limit: 100, Window: time.Minute}, "*4\r\n:1\r\n:99\r\n:60000\r\n:1900000060000\r\n"},
		{ration.SlidingWindow{Limit: 100, Window: time.Minute}, "*4\r\n:1\r\n:99\r\n:0\r\n:1900000000000000\r\n"},
		{ration.SlidingLog{Limit: 100, Window: time.Minute}, "*6\r\n:1\r\n:99\r\n:0\r\n:60000000\r\n:1\r\n:1900000000000000\r\n"},
		{ration.TokenBucket{Rate: ration.PerSecond(100), Burst: 100}, "*6\r\n:1\r\n:99\r\n:0\r\n:0\r\n:1900000000000000\r\n:0\r\n"},
		{ration.GCRA{Rate: ration.PerSecond(100), Burst: 100}, "*3\r\n:1\r\n:10000\r\n:1900000000000000\r\n"},
	} {
		t.Run(c.plan.String(), func(t *testing.T) { //nolint:paralleltest // as above
			rdb := redis.NewClient(&redis.Options{Addr: answer(t, c.reply)})
			t.Cleanup(func() { _ = rdb.Close() })
			client, err := ration.New(rdb, ration.WithTimeout(time.Minute))
			require.NoError(t, err)
			t.Cleanup(client.Close)
			limiter, err := client.Limiter("search", c.plan)
			require.NoError(t, err)
			keys := make([]string, 1000)
			for i := range keys {
				keys[i] = fmt.Sprintf("tenant:%d", i)
			}
			measure := func(keys []string) (allocs, size float64) {
				const n = 5000
				var before, after runtime.MemStats
				for i := range 2 * n {
					if i == n {
						runtime.ReadMemStats(&before)
					}
					if d, err := limiter.Allow(t.Context(), keys[i%len(keys)]); err != nil || !d.Allowed {
						t.Fatal(d, err)
					}
				}
				runtime.ReadMemStats(&after)
				return float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n
			}
			allocs, size := measure(keys[:1])
			t.Logf("%.2f allocations, %.0f bytes", allocs, size)
			require.LessOrEqual(t, allocs, maxAllocs+0.5, "allocations of a decision")
			require.LessOrEqual(t, size, maxBytes+10.0, "bytes allocated by a decision")

			ofOther, sizeOfOther := measure(keys)
			t.Logf("%.2f allocations, %.0f bytes for a key that was not asked about lately", ofOther, sizeOfOther)
			require.LessOrEqual(t, ofOther, allocs+newKeyAllocs+0.5)
			require.LessOrEqual(t, sizeOfOther, size+newKeyBytes+10.0)
		})
	}
}

// answer serves a fixed reply to every script call, and an error to all else, without allocating.
func answer(t *testing.T, reply string) (addr string) {
	t.Helper()
	return listen(t, func(conn io.ReadWriteCloser) { serve(conn, []byte(reply)) })
}

// listen serves each connection by a goroutine of its own.
func listen(t *testing.T, serve func(conn io.ReadWriteCloser)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}

func serve(conn io.ReadWriteCloser, reply []byte) {
	defer conn.Close() //nolint:errcheck // the client is gone
	request := make([]byte, 64<<10)
	refusal := []byte("-ERR unknown command\r\n")
	for {
		n, err := conn.Read(request)
		if err != nil {
			return
		}
		// go-redis writes a command in one piece, and so the pipeline with which it greets: one answer for each.
		answer := refusal
		if bytes.Contains(request[:n], []byte("evalsha")) {
			answer = reply
		}
		for range bytes.Count(request[:n], []byte("*")) {
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}
}

// A decision while the breaker is open allocates the error alone that says whose it is.
//
//nolint:paralleltest // counts the allocations of the process
func TestAllocationsWithoutRedis(t *testing.T) {
	for name, policy := range map[string]ration.FailurePolicy{
		"local": ration.FailLocal(), "open": ration.FailOpen(), "closed": ration.FailClosed(),
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // as above
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
			t.Cleanup(func() { _ = rdb.Close() })
			client, err := ration.New(rdb, ration.WithTimeout(time.Second), ration.OnFailure(policy), ration.WithLogger(
				slog.New(slog.NewTextHandler(io.Discard, nil))), ration.WithBreaker(ration.Breaker{Failures: 1, Probe: time.Hour}))
			require.NoError(t, err)
			t.Cleanup(client.Close)
			limiter, err := client.Limiter("search", ration.GCRA{Rate: ration.PerSecond(100), Burst: 100})
			require.NoError(t, err)
			for range 10 {
				_, err := limiter.Allow(t.Context(), "tenant:42")
				require.NoError(t, err)
			}
			require.LessOrEqual(t, testing.AllocsPerRun(5000, func() {
				if d, err := limiter.Allow(t.Context(), "tenant:42"); err != nil || d.Cause == nil {
					t.Fatal(d, err)
				}
			}), 1.0)
		})
	}
}

// A decision that needs no call allocates nothing.
//
//nolint:paralleltest // counts the allocations of the process
func TestAllocationsWithoutACall(t *testing.T) {
	server := rationtest.New(t, withoutBeats)
	for _, plan := range []ration.Plan{
		ration.FixedWindow{Limit: 1_000_000, Window: time.Hour},
		ration.GCRA{Rate: ration.PerSecond(1), Burst: 1_000_000},
		ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 1_000_000},
		ration.SlidingWindow{Limit: 1_000_000, Window: time.Hour},
		ration.SlidingLog{Limit: 100_000, Window: time.Hour},
	} {
		client, leased := holder(t, server, plan, ration.Prefetch{Max: 10_000, TTL: time.Minute}, withoutBeats)
		for client.Stats().LeasedUnits < 6000 {
			_, err := leased.Allow(t.Context(), "key")
			require.NoError(t, err)
			ration.AwaitLeases(client)
		}
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			if d, err := leased.Allow(t.Context(), "key"); err != nil || d.Source != ration.SourceLease {
				t.Fatal(d, err)
			}
		}), "by a lease of %v", plan)
		client.Close()
	}
	for i, plan := range sharedPlans[:6] {
		limiter, err := server.Client.Limiter(fmt.Sprintf("plan-%d", i), plan)
		require.NoError(t, err)
		for range 2 {
			_, err := limiter.AllowN(t.Context(), "key", 10)
			require.NoError(t, err)
		}
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			if d, err := limiter.AllowN(t.Context(), "key", 10); err != nil || d.Source != ration.SourceDenyCache {
				t.Fatal(d, err)
			}
		}), "by a denial of %v", plan)
	}
}

// What is held of a key takes little room.
//
//nolint:paralleltest // measures the heap
func TestBytesOfALease(t *testing.T) {
	const keys = 2000
	server := rationtest.New(t, withoutBeats)
	client, l := holder(t, server, ration.GCRA{Rate: ration.PerMinute(1000), Burst: 1000}, ration.Prefetch{Max: 10, TTL: time.Minute}, withoutBeats)
	ask := func(from, times int) {
		for i := range keys {
			for range times {
				_, err := l.Allow(t.Context(), fmt.Sprintf("key:%d", from+i))
				require.NoError(t, err)
			}
		}
		ration.AwaitLeases(client)
	}
	// So that other structures have their room, and what carries calls has it.
	ask(0, 1)
	ask(keys, 5)
	before, had := heap(), client.Stats().LeasedKeys
	ask(0, 4)
	held := client.Stats().LeasedKeys - had
	require.Greater(t, held, int64(keys*9/10))
	perKey := float64(heap()-before) / float64(held)
	t.Logf("%.0f bytes for each lease", perKey)
	require.Less(t, perKey, 300.0)
}

// What a decision may allocate where many callers share flushes.
//
//nolint:paralleltest // counts the allocations of the process
func TestAllocationsOfManyCallers(t *testing.T) {
	for _, c := range []struct {
		keys   int
		allocs float64
	}{{1, 2}, {1000, 3}} { // of 1,000 keys most are built anew
		t.Run(fmt.Sprintf("%d keys", c.keys), func(t *testing.T) { //nolint:paralleltest // as above
			rdb := redis.NewClient(&redis.Options{Addr: listen(t, serveTakes)})
			t.Cleanup(func() { _ = rdb.Close() })
			client, err := ration.New(rdb, ration.WithTimeout(time.Minute))
			require.NoError(t, err)
			t.Cleanup(client.Close)
			limiter, err := client.Limiter("search", ration.GCRA{Rate: ration.PerSecond(1000), Burst: 1000})
			require.NoError(t, err)
			keys := make([]string, c.keys)
			for i := range keys {
				keys[i] = fmt.Sprintf("tenant:%d", i)
			}
			const callers, each = 64, 500
			ask := func() {
				var all sync.WaitGroup
				for caller := range callers {
					all.Go(func() {
						for i := range each {
							key := keys[(caller*each+i)*7%len(keys)]
							if d, err := limiter.Allow(t.Context(), key); err != nil || !d.Allowed || d.Cause != nil {
								t.Error(d, err)
								return
							}
						}
					})
				}
				all.Wait()
			}
			ask()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ask()
			runtime.ReadMemStats(&after)
			allocs := float64(after.Mallocs-before.Mallocs) / (callers * each)
			t.Logf("%.2f allocations, %.0f bytes", allocs, float64(after.TotalAlloc-before.TotalAlloc)/(callers*each))
			require.LessOrEqual(t, allocs, c.allocs)
		})
	}
}

// serveTakes serves takes of a GCRA of 1000 a second, and grants all, without allocating.
func serveTakes(conn io.ReadWriteCloser) {
	defer conn.Close() //nolint:errcheck // the client is gone
	request, answers := make([]byte, 0, 1<<20), make([]byte, 0, 64<<10)
	for {
		n, err := conn.Read(request[len(request):cap(request)])
		if err != nil {
			return
		}
		request = request[:len(request)+n]
		answers = answers[:0]
		rest := request
		for {
			args, behind, ok := parseCommand(rest)
			if !ok {
				break
			}
			rest = behind
			if !bytes.Equal(args[0], []byte("evalsha")) {
				answers = append(answers, "-ERR unknown command\r\n"...)
				continue
			}
			keys, _ := strconv.Atoi(string(args[2]))
			answers = append(strconv.AppendInt(append(answers, '*'), int64(3*keys), 10), "\r\n"...)
			for i := range keys {
				count := 1
				switch { // behind keys and numbers; behind the cost; or nowhere
				case keys > 1:
					count, _ = strconv.Atoi(string(args[3+keys+3+i]))
				case args[7] != nil:
					count, _ = strconv.Atoi(string(args[5]))
				}
				answers = append(strconv.AppendInt(append(answers, ':'), int64(count), 10), "\r\n:"...)
				answers = append(strconv.AppendInt(answers, int64(count*1000), 10), "\r\n:1900000000000000\r\n"...)
			}
		}
		request = request[:copy(request, rest)]
		if _, err := conn.Write(answers); err != nil {
			return
		}
	}
}

// parseCommand takes the first command off what was read, if it is there as a whole.
func parseCommand(request []byte) (args [80][]byte, rest []byte, ok bool) {
	number := func(kind byte) (n int, ok bool) {
		end := bytes.Index(request, []byte("\r\n"))
		if end < 1 || request[0] != kind {
			return 0, false
		}
		n, err := strconv.Atoi(string(request[1:end]))
		request = request[end+2:]
		return n, err == nil
	}
	n, ok := number('*')
	for i := 0; ok && i < n; i++ {
		var length int
		if length, ok = number('$'); !ok || len(request) < length+2 {
			return args, nil, false
		}
		args[i], request = request[:length], request[length+2:]
	}
	return args, request, ok
}
