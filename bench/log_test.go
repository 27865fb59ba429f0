package main

import (
	"io"
	"math"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// logBench measures logs in a Redis inside the test.
func logBench(t *testing.T) (*miniredis.Miniredis, *benchmark, *redis.Client) {
	t.Helper()
	server, o := embedded(t)
	b := newBenchmark(&target{options: o, pause: moveClock(server)}, shortest(), io.Discard)
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return server, b, rdb
}

func TestLogs(t *testing.T) {
	t.Parallel()
	_, b, _ := logBench(t)
	got, err := b.logs(t.Context())
	require.NoError(t, err)
	require.Len(t, got.lines, 2)
	for i, line := range got.lines {
		require.Equal(t, b.logLengths[i], line.length)
		require.Len(t, line.micros, len(logColumns))
		require.Positive(t, line.held)
	}
	require.Equal(t, 6, got.longest())
	require.Len(t, got.outs, 3)
	require.Equal(t, 6, got.grant.cost)
	require.EqualValues(t, 1, got.grant.entries)
}

// A full log has as many members as it is to have, whatever they cost, and denies.
func TestFullLog(t *testing.T) {
	t.Parallel()
	server, b, rdb := logBench(t)
	for _, c := range []struct{ n, most int }{{1, 1}, {2, 1}, {1, 2}, {2, 2}, {7, 3}, {page + 1, 2}} {
		call, key, err := b.fullLog(t.Context(), rdb, c.n, c.most)
		require.NoError(t, err)
		members, err := server.ZMembers(key)
		require.NoError(t, err)
		require.Len(t, members, c.n)
		_, replies, err := serverTime(t.Context(), rdb, call, []string{key}, 0, 1)
		require.NoError(t, err)
		require.NoError(t, checkReplies(replies, true))
	}
}

// A log that is out, but for the late grants, still holds all of them when it is called; an expired one is gone.
func TestLetOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		out  logOut
		held int
	}{{logOut{late: 2}, 9}, {logOut{expired: true}, 0}} {
		server, b, rdb := logBench(t)
		call, key, err := b.letOut(t.Context(), rdb, 9, c.out)
		require.NoError(t, err)
		require.Equal(t, c.held > 0, server.Exists(key))
		if c.held > 0 {
			members, err := server.ZMembers(key)
			require.NoError(t, err)
			require.Len(t, members, c.held)
		}
		_, replies, err := serverTime(t.Context(), rdb, call, []string{key}, 0, 1)
		require.NoError(t, err)
		left, err := remaining(replies[0])
		require.NoError(t, err)
		require.EqualValues(t, mostLogged-c.out.late-1, left)
	}
}

// A log that does not hold what was filled in is missed: some was out before all was in, or was there before.
func TestFillAndWaitMissesGrants(t *testing.T) {
	t.Parallel()
	_, b, rdb := logBench(t)
	const window = time.Second
	call, err := recordCall(t.Context(), slidingLog(), b.options, quota{units: mostLogged, window: window}, "the-key")
	require.NoError(t, err)
	key := call.stored("other")
	inTime, err := b.fillAndWait(t.Context(), rdb, call, key, 9, logOut{late: 1}, window)
	require.NoError(t, err)
	require.True(t, inTime)
	inTime, err = b.fillAndWait(t.Context(), rdb, call, key, 9, logOut{}, window)
	require.NoError(t, err)
	require.False(t, inTime, "the late grant is still in it")
}

func TestRemaining(t *testing.T) {
	t.Parallel()
	left, err := remaining([]any{int64(1), int64(5), int64(0), int64(9), int64(5), int64(1)})
	require.NoError(t, err)
	require.EqualValues(t, 5, left)
	for _, reply := range []any{nil, int64(1), []any{int64(1), int64(5)}, []any{int64(1), "5", int64(0), int64(9), int64(5), int64(1)}} {
		_, err := remaining(reply)
		require.Error(t, err, "%v", reply)
	}
}

// What this Redis cannot say is not known, and no error.
func TestMemoryUsageIsNotKnown(t *testing.T) {
	t.Parallel()
	_, _, rdb := logBench(t)
	bytes, err := memoryUsage(t.Context(), rdb, "any")
	require.NoError(t, err)
	require.True(t, math.IsNaN(bytes))
}
