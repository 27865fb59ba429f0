//go:build !race

package ration_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// What a decision may allocate at one caller, all of go-redis included. For a key that was not asked about lately its stored
// form is built, and remembered.
const (
	maxAllocs, maxBytes       = 10, 448
	newKeyAllocs, newKeyBytes = 3, 120
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn, []byte(reply))
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
