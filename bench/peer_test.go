package main

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Every peer allows what the quota holds and denies what is beyond, for each key by itself.
func TestPeersKeepTheQuota(t *testing.T) {
	t.Parallel()
	for _, p := range peers() {
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
	for _, p := range peers() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			server, o := embedded(t)
			now := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
			l, err := p.opened(o, scarce)
			require.NoError(t, err)
			defer l.close()
			for i, want := range []bool{true, false, true, false} {
				if want && i > 0 {
					now = now.Add(scarce.refill)
					server.SetTime(now)
					server.FastForward(scarce.window)
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
	for _, p := range peers() {
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
	b := newBenchmark(&redis.Options{}, standard(), nil)
	require.Equal(t, baseline, b.peers[b.base].name)
}

// What is recorded of a peer is what decides: sent again by hand, it takes one unit more.
func TestRecordCall(t *testing.T) {
	t.Parallel()
	for _, p := range peers() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			_, o := embedded(t)
			q := quota{units: 4, refill: time.Hour, window: time.Hour}
			call, err := recordCall(t.Context(), p, o, q, "a")
			require.NoError(t, err)
			require.Contains(t, call.storedKey, "a")

			rdb := redis.NewClient(o)
			defer func() { _ = rdb.Close() }()
			require.NoError(t, rdb.EvalSha(t.Context(), call.digest, []string{call.storedKey}, call.args...).Err())
			l, err := p.opened(o, q)
			require.NoError(t, err)
			defer l.close()
			for _, want := range []bool{true, false} {
				allowed, err := l.allow(t.Context(), "a")
				require.NoError(t, err)
				require.Equal(t, want, allowed)
			}
		})
	}
}
