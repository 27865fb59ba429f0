package main

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Each plan's script stands beside the baseline's own.
func TestScripts(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range scripts() {
		names = append(names, s.name)
	}
	require.Subset(t, names, []string{"gcra", "gcra for a count", "fixedwindow", "tokenbucket", "slidingwindow", "slidinglog", "4 gcra together", baseline})
}

// All calls are made, warm-up included, and the replies are those of the others, whether Redis tells the time they took or
// not.
func TestServerTime(t *testing.T) {
	t.Parallel()
	_, o := embedded(t)
	call, err := recordCall(t.Context(), tokenBucket(), o, quota{units: 10, refill: time.Hour}, "the-key")
	require.NoError(t, err)
	rdb := redis.NewClient(o)
	defer func() { _ = rdb.Close() }()
	micros, replies, err := serverTime(t.Context(), rdb, call, []string{call.stored("other")}, 3, 8)
	require.NoError(t, err)
	require.True(t, math.IsNaN(micros))
	require.Len(t, replies, 8)
	for i, reply := range replies {
		ok, err := granted(reply)
		require.NoError(t, err)
		require.Equal(t, i < 7, ok, "reply %d", i)
	}
}

// An error of a script is no measurement, and must not hide behind a Redis that tells no times.
func TestServerTimeFails(t *testing.T) {
	t.Parallel()
	server, o := embedded(t)
	call, err := recordCall(t.Context(), tokenBucket(), o, quota{units: 10, refill: time.Hour}, "the-key")
	require.NoError(t, err)
	require.NoError(t, server.Set("no-bucket", "1"))
	rdb := redis.NewClient(o)
	defer func() { _ = rdb.Close() }()
	_, _, err = serverTime(t.Context(), rdb, call, []string{"no-bucket"}, 0, 2)
	require.ErrorContains(t, err, "WRONGTYPE")
	server.SetError("ERR out of order")
	_, _, err = serverTime(t.Context(), rdb, call, []string{"other"}, 1, 0)
	require.ErrorContains(t, err, "out of order", "also in the warm-up")
}

func TestCheckReplies(t *testing.T) {
	t.Parallel()
	replies := func(yes, no int) []any {
		var all []any
		for range yes {
			all = append(all, int64(0))
		}
		for range no {
			all = append(all, []any{int64(0), int64(0)})
		}
		return all
	}
	require.NoError(t, checkReplies(replies(100, 0), false))
	require.ErrorContains(t, checkReplies(replies(99, 1), false), "1 of 100 requests were denied")
	require.NoError(t, checkReplies(replies(10, 90), true))
	require.ErrorContains(t, checkReplies(replies(11, 89), true), "11 of 100 requests were allowed")
	require.Error(t, checkReplies([]any{"OK"}, true))
}

// The quota of the requests that are denied in Redis is used up by the warm-up, whatever the plan.
func TestSpentIsSpent(t *testing.T) {
	t.Parallel()
	for _, s := range scripts() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			_, o := embedded(t)
			call, err := recordCall(t.Context(), s.peer, o, spent, "the-key")
			require.NoError(t, err)
			rdb := redis.NewClient(o)
			defer func() { _ = rdb.Close() }()
			_, replies, err := serverTime(t.Context(), rdb, call, call.allStored("other"), warmUp, 20)
			require.NoError(t, err)
			for _, reply := range replies {
				ok, err := granted(reply)
				require.NoError(t, err)
				require.False(t, ok)
			}
		})
	}
}

func TestParseStats(t *testing.T) {
	t.Parallel()
	got, err := parseStats("# Commandstats\r\n" +
		"cmdstat_eval:calls=1,usec=90,usec_per_call=90.00,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_evalsha:calls=20,usec=90,usec_per_call=4.50,rejected_calls=0,failed_calls=0\r\n")
	require.NoError(t, err)
	require.Equal(t, callStats{calls: 20, micros: 90}, got)

	got, err = parseStats("# Commandstats\r\n")
	require.NoError(t, err)
	require.Zero(t, got)

	_, err = parseStats("cmdstat_evalsha:usec=90\r\n")
	require.Error(t, err)
}
