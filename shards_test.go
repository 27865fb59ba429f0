package ration_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// Any two shards of a key live in different slots, whatever the key.
func TestShardsHaveSlotsOfTheirOwn(t *testing.T) {
	t.Parallel()
	_, limiter := newSharded(t, ration.FixedWindow{Limit: 64, Window: time.Minute}, 64)
	rapid.Check(t, func(r *rapid.T) {
		key := rapid.StringN(1, -1, 512).Draw(r, "key")
		seen := make(map[uint16]string)
		for _, stored := range limiter.ShardKeys(key) {
			at := ration.Slot(stored)
			require.NotContains(r, seen, at, "%q and %q", seen[at], stored)
			seen[at] = stored
		}
		require.Len(r, seen, 64)
	})
}

// A key of a sharded limiter never is that of another key, or of one that is not sharded.
func TestShardKeysAreTheirOwn(t *testing.T) {
	t.Parallel()
	_, limiter := newSharded(t, ration.FixedWindow{Limit: 64, Window: time.Minute}, 64)
	seen := make(map[string]string)
	for _, key := range []string{"a", "a:0", "a:1", "{a}", "{a}:1", "{a:1}", "a:0:0", "%7Ba%7D"} {
		for _, stored := range append(limiter.ShardKeys(key), limiter.StoredKey(key)) {
			require.Empty(t, seen[stored], stored)
			seen[stored] = key
		}
	}
}

func newSharded(t *testing.T, plan ration.Plan, n int, options ...ration.LimiterOption) (*rationtest.Server, *ration.Limiter) {
	t.Helper()
	server := rationtest.New(t, withoutBeats)
	limiter, err := server.Client.Limiter("hot", plan, append(options, ration.WithShards(n))...)
	require.NoError(t, err)
	return server, limiter
}

// The shards together are the plan: in units, and in rate.
func TestShardsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(2, 64).Draw(r, "shards")
		units := rapid.Int64Range(int64(n), 100_000).Draw(r, "units")
		window := time.Duration(rapid.Int64Range(1, 1_000_000).Draw(r, "window")) * time.Millisecond
		rate := ration.Rate{Units: rapid.Int64Range(1, 1000).Draw(r, "rate"), Per: window}
		plan := rapid.SampledFrom([]ration.Plan{
			ration.FixedWindow{Limit: units, Window: window},
			ration.FixedWindow{Limit: units, Window: window, Aligned: true},
			ration.SlidingWindow{Limit: units, Window: window},
			ration.SlidingLog{Limit: units, Window: window},
			ration.TokenBucket{Rate: rate, Burst: units},
			ration.GCRA{Rate: rate, Burst: units},
		}).Draw(r, "plan")
		shards, err := ration.ShardsOf(plan, n)
		if err != nil {
			require.ErrorIs(r, err, ration.ErrInvalidPlan) // a burst that is too great for the rate of a shard
			_, isGCRA := plan.(ration.GCRA)
			require.True(r, isGCRA, err)
			return
		}
		require.Len(r, shards, n)
		sum := int64(0)
		for _, shard := range shards {
			switch p := shard.(type) {
			case ration.FixedWindow:
				sum += p.Limit
				require.Equal(r, window, p.Window)
				require.Equal(r, plan.(ration.FixedWindow).Aligned, p.Aligned)
			case ration.SlidingWindow:
				sum += p.Limit
				require.Equal(r, window, p.Window)
			case ration.SlidingLog:
				sum += p.Limit
				require.Equal(r, window, p.Window)
			case ration.TokenBucket:
				sum += p.Burst
				requireShare(r, rate, p.Rate, n)
			case ration.GCRA:
				sum += p.Burst
				requireShare(r, rate, p.Rate, n)
			}
		}
		require.Equal(r, units, sum)
	})
}

// requireShare: a rate is exactly the n-th part of another.
func requireShare(r *rapid.T, whole, share ration.Rate, n int) {
	require.Equal(r, whole.Units*int64(share.Per), share.Units*int64(n)*int64(whole.Per))
}

func TestShardsRefused(t *testing.T) {
	t.Parallel()
	client := rationtest.New(t).Client
	for _, n := range []int{-1, 0, 65} {
		_, err := client.Limiter("hot", perMinute(100), ration.WithShards(n))
		require.ErrorIs(t, err, ration.ErrInvalidOption)
		require.ErrorContains(t, err, fmt.Sprintf("WithShards: is %d", n))
	}
	for says, plan := range map[string]ration.Plan{
		"it is a MultiPlan":                ration.MultiPlan{{Name: "a", Plan: perMinute(100)}},
		"RestartOnDeny cannot be":          ration.FixedWindow{Limit: 100, Window: time.Minute, RestartOnDeny: true},
		"into 8 shards: it has 7 units":    perMinute(7),
		"into 8 shards: it is too slow":    ration.TokenBucket{Rate: ration.Rate{Units: 9, Per: 40 * 365 * 24 * time.Hour}, Burst: 8},
		"Rate is 1/1095000h: must be at":   ration.TokenBucket{Rate: ration.Rate{Units: 1, Per: 30 * 365 * 24 * time.Hour}, Burst: 8},
		"gcra: Rate is 1/700800h: must be": ration.GCRA{Rate: ration.Rate{Units: 1, Per: 10 * 365 * 24 * time.Hour}, Burst: 8},
	} {
		_, err := client.Limiter("hot", plan, ration.WithShards(8))
		require.ErrorIs(t, err, ration.ErrInvalidPlan, says)
		if !strings.Contains(says, "Rate is") {
			require.ErrorContains(t, err, says)
		}
	}
	limiter, err := client.Limiter("hot", perMinute(100), ration.WithShards(8))
	require.NoError(t, err)
	_, err = limiter.AllowN(t.Context(), "key", 13)
	var cost *ration.CostError
	require.ErrorAs(t, err, &cost)
	require.Equal(t, ration.CostError{Plan: "one of the 8 shards of fixed-window 100/1m", Cost: 13, Limit: 12}, *cost)
	_, err = limiter.Take(t.Context(), ration.Request{Key: "key", Cost: 1, Plan: perMinute(7)})
	require.ErrorIs(t, err, ration.ErrInvalidPlan)
}

// At 1.2 times the quota at least 98 % of it are used, and never more than all, on every plan.
func TestShardsUseTheQuota(t *testing.T) {
	t.Parallel()
	const (
		limit  = 1000
		demand = 1200 // a second
		spans  = 5    // seconds, of which the first is not counted
	)
	for _, plan := range []ration.Plan{
		ration.FixedWindow{Limit: limit, Window: time.Second, Aligned: true},
		ration.SlidingWindow{Limit: limit, Window: time.Second},
		ration.SlidingLog{Limit: limit, Window: time.Second},
		ration.TokenBucket{Rate: ration.PerSecond(limit), Burst: 80},
		ration.GCRA{Rate: ration.PerSecond(limit), Burst: 80},
	} {
		t.Run(plan.String(), func(t *testing.T) {
			t.Parallel()
			server, limiter := newSharded(t, plan, 8)
			admitted := make([]int, spans)
			for i := range demand * spans {
				d, err := limiter.Allow(t.Context(), "hot")
				require.NoError(t, err)
				if d.Allowed {
					admitted[i/demand]++
				} else {
					require.Positive(t, d.RetryAfter)
				}
				// Whole microseconds, 1,200 of which are a second.
				server.Advance(time.Duration(1_000_000*(i+1)/demand-1_000_000*i/demand) * time.Microsecond)
			}
			burst := 0
			if plan.String()[0] == 't' || plan.String()[0] == 'g' {
				burst = 80
			}
			total, quota := 0, limit*(spans-1)
			for second, n := range admitted {
				require.LessOrEqual(t, n, limit+burst, "second %d", second)
				if second > 0 {
					total += n
				}
			}
			t.Logf("%d of %d: %.2f %%", total, quota, 100*float64(total)/float64(quota))
			require.LessOrEqual(t, total, quota+burst)
			require.GreaterOrEqual(t, total, quota*98/100)
		})
	}
}

// Whoever takes all at once gets the quota, and no more, wherever the units are.
func TestShardsAreExhausted(t *testing.T) {
	t.Parallel()
	server, limiter := newSharded(t, perMinute(103), 8)
	var admitted atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 400 {
				d, err := limiter.Allow(t.Context(), "hot")
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 103, admitted.Load())
	d, err := limiter.Peek(t.Context(), "hot")
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.EqualValues(t, 103, d.Limit)
	require.Zero(t, d.Remaining)
	require.Equal(t, time.Minute, d.RetryAfter)
	require.Len(t, server.NewRedis(t).Keys(t.Context(), "ration:hot:fw1s:{hot:?}").Val(), 8)

	require.NoError(t, limiter.Reset(t.Context(), "hot"))
	d, err = limiter.Peek(t.Context(), "hot")
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.Zero(t, d.RetryAfter)
	require.EqualValues(t, 103, d.Remaining)
	require.Empty(t, server.NewRedis(t).Keys(t.Context(), "*").Val())
}

// A granted request asks one shard, a denied one two.
func TestShardsAsked(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	rdb := server.NewRedis(t)
	var calls atomic.Int64
	rdb.AddHook(processHook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if isScript(cmd, digestOf(t, "fixedwindow_take")) {
			calls.Add(1)
		}
		return next(ctx, cmd)
	}))
	client, err := ration.New(rdb, ration.WithTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("hot", perMinute(100), ration.WithShards(2))
	require.NoError(t, err)
	for range 100 {
		before := calls.Load()
		d, err := limiter.Allow(t.Context(), "hot")
		require.NoError(t, err)
		require.True(t, d.Allowed, "two shards are all of them")
		require.LessOrEqual(t, calls.Load()-before, int64(2))
	}
	before := calls.Load()
	d, err := limiter.Allow(t.Context(), "hot")
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.LessOrEqual(t, calls.Load()-before, int64(2), "of one it may be known already that it denies")
	before = calls.Load()
	d, err = limiter.Allow(t.Context(), "hot")
	require.NoError(t, err)
	require.Equal(t, ration.SourceDenyCache, d.Source)
	require.Equal(t, before, calls.Load(), "both are known to deny")
}

// What was taken at a shard goes back there; keys have plans of their own, split in the same way.
func TestShardsRefundAndPlanFor(t *testing.T) {
	t.Parallel()
	_, limiter := newSharded(t, perMinute(80), 8, ration.WithPlanFor(func(key string) (ration.Plan, bool) {
		return perMinute(800), key == "gold"
	}))
	d, err := limiter.AllowN(t.Context(), "key", 10)
	require.NoError(t, err)
	require.Equal(t, "fixed-window 80/1m", d.Plan)
	require.EqualValues(t, 10, d.Limit)
	require.EqualValues(t, 70, remaining(t, limiter, "key"))
	require.NoError(t, limiter.Refund(t.Context(), d))
	require.EqualValues(t, 80, remaining(t, limiter, "key"))

	d, err = limiter.AllowUpTo(t.Context(), "gold", 1000)
	require.NoError(t, err)
	require.EqualValues(t, 100, d.Granted)
	require.EqualValues(t, 700, remaining(t, limiter, "gold"))
}

// One shard is no split at all.
func TestOneShard(t *testing.T) {
	t.Parallel()
	server, limiter := newSharded(t, perMinute(5), 1)
	d, err := limiter.AllowN(t.Context(), "key", 5)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.Equal(t, []string{"ration:hot:fw1w:{key}"}, server.NewRedis(t).Keys(t.Context(), "*").Val())
}

// Both shards that a denied request asks are asked within one timeout.
func TestShardsShareATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 100 * time.Millisecond
		o := newOutage(t, hourly, 1, ration.WithTimeout(timeout))
		limiter, err := o.clients[0].Limiter("sharded", hourly, ration.WithShards(8), ration.OnFailure(ration.FailClosed()))
		require.NoError(t, err)
		o.Hang()
		begin := time.Now()
		d, err := limiter.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Equal(t, timeout, time.Since(begin))
	})
}
