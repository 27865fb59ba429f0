package main

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// everyPeer is every peer that asks for one request at a time, also those that are measured only in Redis.
func everyPeer() []peer {
	all := append(ours(), redisRate())
	all = append(all, others()...)
	for _, p := range ours() {
		all = append(all, rawOf(p))
	}
	return all
}

// Every peer allows what the quota holds and denies what is beyond, for each key by itself.
func TestPeersKeepTheQuota(t *testing.T) {
	t.Parallel()
	for _, p := range everyPeer() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			_, o := embedded(t)
			l, err := p.opened(o, quota{units: 3, refill: time.Hour, window: time.Hour})
			require.NoError(t, err)
			defer l.close()
			for _, key := range []string{"a", "b"} {
				for i := range 5 {
					allowed, err := l.allow(t.Context(), key)
					require.NoError(t, err)
					require.Equal(t, i < 3, allowed, "key %s, request %d", key, i)
				}
			}
		})
	}
}

// Every peer allows again what the two quotas of the works give back.
func TestPeersGiveBack(t *testing.T) {
	t.Parallel()
	for _, p := range everyPeer() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			server, o := embedded(t)
			now := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
			l, err := p.opened(o, scarce)
			require.NoError(t, err)
			defer l.close()
			for i, want := range []bool{true, false, true, false} {
				if want && i > 0 {
					// A sliding window counts what was granted at its very start for as long as the next one lasts.
					now = now.Add(2 * scarce.window)
					server.SetTime(now)
					server.FastForward(2 * scarce.window)
				}
				allowed, err := l.allow(t.Context(), "a")
				require.NoError(t, err)
				require.Equal(t, want, allowed, "request %d", i)
			}
		})
	}
}

// Every peer passes an error of Redis on: what fails is no answer.
func TestPeersFail(t *testing.T) {
	t.Parallel()
	for _, p := range everyPeer() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			server, o := embedded(t)
			l, err := p.opened(o, plenty)
			require.NoError(t, err)
			defer l.close()
			server.SetError("ERR out of order")
			_, err = askTimes(t.Context(), l, []string{"a"}, 2, 10)
			require.ErrorContains(t, err, "out of order")
		})
	}
}

func TestBaselineIsAPeer(t *testing.T) {
	t.Parallel()
	b := newBenchmark(&target{options: &redis.Options{}}, standard(), nil)
	require.Equal(t, baseline, b.peers[baseOf(b.peers)].name)
}

// Each plan is measured by itself, GCRA also as services use it, and beside others.
func TestPeers(t *testing.T) {
	t.Parallel()
	var names []string
	for _, p := range peers() {
		names = append(names, p.name)
	}
	require.Equal(t, []string{
		byDefault, oneKey, everyDenial, leased, "tokenbucket", "fixedwindow", "slidingwindow", "slidinglog", "raw-gcra",
		"ulule/limiter", "throttled", "rueidis-gcra", baseline,
	}, names)
}

// A request for a count takes as much as there is, of which it is allowed to leave nothing.
func TestGCRAForCount(t *testing.T) {
	t.Parallel()
	_, o := embedded(t)
	l, err := gcraForCount().opened(o, quota{units: aCount + 1, refill: time.Hour})
	require.NoError(t, err)
	defer l.close()
	for i, want := range []bool{true, true, false} {
		allowed, err := l.allow(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, want, allowed, "request %d", i)
	}
}

// What is recorded of a peer is what decides: sent again by hand, it takes one unit more.
func TestRecordCall(t *testing.T) {
	t.Parallel()
	for _, p := range append(ours(), redisRate(), ululeLimiter()) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			_, o := embedded(t)
			const key = "the-key"
			q := quota{units: 4, refill: time.Hour, window: time.Hour}
			call, err := recordCall(t.Context(), p, o, q, key)
			require.NoError(t, err)
			require.Contains(t, call.stored("other"), "other")

			rdb := redis.NewClient(o)
			defer func() { _ = rdb.Close() }()
			require.NoError(t, rdb.EvalSha(t.Context(), call.digest, []string{call.stored(key)}, call.args...).Err())
			l, err := p.opened(o, q)
			require.NoError(t, err)
			defer l.close()
			for _, want := range []bool{true, false} {
				allowed, err := l.allow(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, want, allowed)
			}
		})
	}
}

// A recorded call can be made to cost more, and stays as it is itself.
func TestCosting(t *testing.T) {
	t.Parallel()
	_, o := embedded(t)
	call, err := recordCall(t.Context(), slidingLog(), o, quota{units: 10, window: time.Hour}, "the-key")
	require.NoError(t, err)
	rdb := redis.NewClient(o)
	defer func() { _ = rdb.Close() }()
	for _, c := range []struct {
		call scriptCall
		left int64
	}{{call.costing(7), 3}, {call, 2}, {call.costing(3), 2}} {
		reply, err := rdb.EvalSha(t.Context(), c.call.digest, []string{call.stored("other")}, c.call.args...).Result()
		require.NoError(t, err)
		left, err := remaining(reply)
		require.NoError(t, err)
		require.Equal(t, c.left, left)
	}
}

func TestGranted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reply any
		want  bool
	}{
		{int64(0), true},
		{int64(7), true},
		{int64(-1), false},
		{int64(-8), false},
		{[]any{int64(1), int64(9)}, true},
		{[]any{int64(16), "0.5"}, true},
		{[]any{int64(0), int64(9)}, false},
	} {
		got, err := granted(c.reply)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%v", c.reply)
	}
	for _, reply := range []any{nil, "OK", []any{}, []any{"1"}} {
		_, err := granted(reply)
		require.Error(t, err, "%v", reply)
	}
}
