package ration_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// A plan that cannot be is refused when the limiter is made, by an error that names the plan and the field.
func TestImpossiblePlansOfB43(t *testing.T) {
	t.Parallel()
	const huge = 1<<52 + 1
	second := ration.PerSecond(1)
	for _, c := range []struct {
		plan       ration.Plan
		kind       string
		field, say string
	}{
		{ration.FixedWindow{}, "fixed-window", "Limit", "is 0: must be at least 1"},
		{ration.FixedWindow{Limit: -1, Window: time.Second}, "fixed-window", "Limit", "is -1"},
		{ration.FixedWindow{Limit: huge, Window: time.Second}, "fixed-window", "Limit", "at most 4503599627370496"},
		{ration.FixedWindow{Limit: 1}, "fixed-window", "Window", "is 0s: must be at least 1ms"},
		{ration.FixedWindow{Limit: 1, Window: -time.Second}, "fixed-window", "Window", "is -1s"},
		{ration.FixedWindow{Limit: 1, Window: 999 * time.Microsecond}, "fixed-window", "Window", "at least 1ms"},
		{ration.FixedWindow{Limit: 1, Window: 1_500_500 * time.Microsecond}, "fixed-window", "Window", "whole milliseconds"},
		{ration.FixedWindow{Limit: 1, Window: math.MaxInt64}, "fixed-window", "Window", "at most 1250999h53m47.37s"},
		{ration.FixedWindow{Limit: 1, Window: time.Second, Aligned: true, RestartOnDeny: true}, "fixed-window", "RestartOnDeny", "Aligned"},
		{ration.TokenBucket{}, "token-bucket", "Rate", "has 0 units: must be at least 1"},
		{ration.TokenBucket{Rate: ration.PerSecond(-1), Burst: 1}, "token-bucket", "Rate", "has -1 units"},
		{ration.TokenBucket{Rate: ration.PerSecond(1e12 + 1), Burst: 1}, "token-bucket", "Rate", "at most 1000000000000"},
		{ration.TokenBucket{Rate: ration.Every(0), Burst: 1}, "token-bucket", "Rate", "at least 1ns"},
		{ration.TokenBucket{Rate: ration.Every(-1), Burst: 1}, "token-bucket", "Rate", "at least 1ns"},
		{ration.TokenBucket{Rate: ration.Every(math.MaxInt64), Burst: 1}, "token-bucket", "Rate", "at least 1 unit per"},
		{ration.TokenBucket{Rate: second}, "token-bucket", "Burst", "is 0: must be at least 1"},
		{ration.TokenBucket{Rate: second, Burst: -1}, "token-bucket", "Burst", "is -1"},
		{ration.TokenBucket{Rate: second, Burst: math.MaxInt64}, "token-bucket", "Burst", "at most 4503599627 with a rate of 1/s"},
		{ration.TokenBucket{Rate: ration.PerDay(1), Burst: 1_000_000}, "token-bucket", "Burst", "at most 52124"},
		{ration.SlidingWindow{}, "sliding-window", "Limit", "is 0: must be at least 1"},
		{ration.SlidingWindow{Limit: -1, Window: time.Second}, "sliding-window", "Limit", "is -1"},
		{ration.SlidingWindow{Limit: huge, Window: time.Second}, "sliding-window", "Limit", "at most 4503599627370496"},
		{ration.SlidingWindow{Limit: 1}, "sliding-window", "Window", "is 0s: must be at least 1ms"},
		{ration.SlidingWindow{Limit: 1, Window: 1_500_500 * time.Microsecond}, "sliding-window", "Window", "whole milliseconds"},
		{ration.SlidingLog{}, "sliding-log", "Limit", "is 0: must be at least 1"},
		{ration.SlidingLog{Limit: -1, Window: time.Second}, "sliding-log", "Limit", "is -1"},
		{ration.SlidingLog{Limit: 100_001, Window: time.Second}, "sliding-log", "Limit", "is 100001: must be at most 100000"},
		{ration.SlidingLog{Limit: 1, Window: math.MaxInt64}, "sliding-log", "Window", "at most 1250999h53m47.37s"},
		{ration.GCRA{}, "gcra", "Rate", "has 0 units: must be at least 1"},
		{ration.GCRA{Rate: second}, "gcra", "Burst", "is 0: must be at least 1"},
		{ration.GCRA{Rate: second, Burst: -1}, "gcra", "Burst", "is -1"},
		{ration.GCRA{Rate: second, Burst: 1_125_899_907}, "gcra", "Burst", "at most 1125899906 with a rate of 1/s"},
		{ration.GCRA{Rate: ration.PerDay(1), Burst: 13_032}, "gcra", "Burst", "at most 13031"},
		{ration.GCRA{Rate: ration.PerSecond(999_983), Burst: math.MaxInt64}, "gcra", "Burst", "at most 1125899906"},
		{ration.GCRA{Rate: ration.Every(13_032 * 24 * time.Hour), Burst: 1}, "gcra", "Rate", "at least 1 unit per 1125899906842624us"},
		{nil, "plan", "", "is nil"},
		{&ration.TokenBucket{Rate: second, Burst: 1}, "plan of type *ration.TokenBucket", "", "by value"},
		{(*ration.FixedWindow)(nil), "plan of type *ration.FixedWindow", "", "by value"},
		{struct {
			ration.TokenBucket
			uncomparable []int
		}{}, "plan of type struct", "", "by value"},
	} {
		t.Run(fmt.Sprintf("%T %v", c.plan, c.say), func(t *testing.T) {
			t.Parallel()
			server := rationtest.New(t)
			limiter, err := server.Client.Limiter("search", c.plan)
			require.Nil(t, limiter)
			require.ErrorIs(t, err, ration.ErrInvalidPlan)
			var impossible *ration.PlanError
			require.ErrorAs(t, err, &impossible)
			require.Contains(t, impossible.Plan, c.kind)
			require.Equal(t, c.field, impossible.Field)
			require.ErrorContains(t, err, c.say)
			require.ErrorContains(t, err, "search")

			if c.plan == nil {
				return
			}
			// As the plan of one request it is refused just so, with nothing sent.
			limiter, err = server.Client.Limiter("search", ration.FixedWindow{Limit: 1, Window: time.Second})
			require.NoError(t, err)
			_, err = limiter.Take(t.Context(), ration.Request{Key: "key", Cost: 1, Plan: c.plan})
			require.ErrorIs(t, err, ration.ErrInvalidPlan)
			require.Empty(t, server.NewRedis(t).Keys(t.Context(), "*").Val())
		})
	}
}

// The greatest numbers that are accepted are decided exactly.
func TestGreatestPlans(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	for i, plan := range []ration.Plan{
		ration.FixedWindow{Limit: 1 << 52, Window: 1_250_999 * time.Hour},
		ration.FixedWindow{Limit: 1 << 52, Window: time.Millisecond, Aligned: true},
		ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 4_503_599_627},
		ration.TokenBucket{Rate: ration.PerSecond(1e12), Burst: 1 << 52},
		ration.TokenBucket{Rate: ration.PerDay(1), Burst: 52_124},
		ration.TokenBucket{Rate: ration.PerSecond(999_999_999_989), Burst: 1 << 52},
		ration.SlidingWindow{Limit: 1 << 52, Window: 1_250_999 * time.Hour},
		ration.SlidingWindow{Limit: 1 << 52, Window: time.Millisecond},
		ration.SlidingLog{Limit: 100_000, Window: 1_250_999 * time.Hour},
		ration.SlidingLog{Limit: 100_000, Window: time.Millisecond},
		ration.GCRA{Rate: ration.PerSecond(1), Burst: 1_125_899_906},
		ration.GCRA{Rate: ration.PerDay(1), Burst: 13_031},
		ration.GCRA{Rate: ration.PerSecond(2_000_000), Burst: 1 << 50},
	} {
		limiter, err := server.Client.Limiter(fmt.Sprint("limiter-", i), plan)
		require.NoError(t, err, plan)
		d, err := limiter.Peek(t.Context(), "key")
		require.NoError(t, err, plan)
		most := d.Limit
		d, err = limiter.AllowN(t.Context(), "key", most-1)
		require.NoError(t, err, plan)
		require.True(t, d.Allowed, plan)
		require.EqualValues(t, 1, d.Remaining, plan)
		d, err = limiter.AllowN(t.Context(), "key", most)
		require.NoError(t, err, plan)
		require.False(t, d.Allowed, plan)
		require.Positive(t, d.RetryAfter, plan)
		d, err = limiter.AllowUpTo(t.Context(), "key", math.MaxInt64)
		require.NoError(t, err, plan)
		require.EqualValues(t, 1, d.Granted, plan)
	}
}

func TestCostsAreCheckedBeforeTheNetwork(t *testing.T) {
	t.Parallel()
	rdb, sent := countingRedis(t)
	client, err := ration.New(rdb)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	for name, plan := range map[string]ration.Plan{
		"window":  ration.FixedWindow{Limit: 5, Window: time.Minute},
		"sliding": ration.SlidingWindow{Limit: 5, Window: time.Minute},
		"log":     ration.SlidingLog{Limit: 5, Window: time.Minute},
		"bucket":  ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 5},
		"gcra":    ration.GCRA{Rate: ration.PerSecond(1), Burst: 5},
	} {
		limiter, err := client.Limiter(name, plan)
		require.NoError(t, err)
		_, err = limiter.AllowN(t.Context(), "key", -1)
		require.ErrorIs(t, err, ration.ErrInvalidCost)
		_, err = limiter.AllowUpTo(t.Context(), "key", -1)
		require.ErrorIs(t, err, ration.ErrInvalidCost)
		_, err = limiter.AllowUpTo(t.Context(), "key", math.MinInt64)
		require.ErrorIs(t, err, ration.ErrInvalidCost)
		_, err = limiter.AllowN(t.Context(), "key", 6)
		var tooMuch *ration.CostError
		require.ErrorAs(t, err, &tooMuch)
		require.ErrorIs(t, err, ration.ErrCostExceedsLimit)
		require.Equal(t, ration.CostError{Plan: plan.String(), Cost: 6, Limit: 5}, *tooMuch)
		require.EqualError(t, err, fmt.Sprintf("ration: limiter %q: cost 6 exceeds the 5 that %v can ever admit", name, plan))
		for _, call := range []func() error{
			func() error { _, err := limiter.Allow(t.Context(), ""); return err },
			func() error { _, err := limiter.AllowUpTo(t.Context(), "", 1); return err },
			func() error { _, err := limiter.Peek(t.Context(), ""); return err },
			func() error { return limiter.Reset(t.Context(), "") },
		} {
			require.ErrorIs(t, call(), ration.ErrInvalidKey)
		}
	}
	require.Zero(t, sent.Load())
}

// Different customers, different quotas.
func TestPlanFor(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	plans := map[string]ration.Plan{
		"gold":  ration.FixedWindow{Limit: 500, Window: time.Minute},
		"other": ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 5},
		"zero":  ration.FixedWindow{},
		"nil":   nil,
	}
	limiter, err := server.Client.Limiter("search", ration.FixedWindow{Limit: 100, Window: time.Minute},
		ration.WithPlanFor(func(key string) (ration.Plan, bool) { plan, found := plans[key]; return plan, found }))
	require.NoError(t, err)

	for key, limit := range map[string]int64{"gold": 500, "plain": 100} {
		d, err := limiter.Allow(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, limit, d.Limit, key)
		require.Equal(t, limit-1, d.Remaining, key)
		d, err = limiter.Peek(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, limit, d.Limit, key)
	}
	_, err = limiter.AllowN(t.Context(), "plain", 101)
	require.ErrorIs(t, err, ration.ErrCostExceedsLimit)
	d, err := limiter.AllowN(t.Context(), "gold", 101)
	require.NoError(t, err)
	require.EqualValues(t, 500-1-101, d.Remaining)

	d, err = limiter.Take(t.Context(), ration.Request{Key: "gold", Cost: 1, Plan: ration.FixedWindow{Limit: 103, Window: time.Minute}})
	require.NoError(t, err)
	require.EqualValues(t, 103, d.Limit, "the plan of the request goes before that of the key")
	require.Zero(t, d.Remaining)
	require.Equal(t, "fixed-window 103/1m", d.Plan)

	_, err = limiter.Allow(t.Context(), "other")
	require.ErrorIs(t, err, ration.ErrPlanKind)
	_, err = limiter.Allow(t.Context(), "zero")
	require.ErrorIs(t, err, ration.ErrInvalidPlan)
	_, err = limiter.Allow(t.Context(), "nil")
	require.ErrorIs(t, err, ration.ErrInvalidPlan)
}

// A plan of a key may change at any time, and what is counted goes on as the plan says; where it starts afresh, Peek and Reset
// are about the plan of now.
func TestPlanForChanges(t *testing.T) {
	t.Parallel()
	second := ration.PerSecond(1)
	for _, c := range []struct {
		before, after ration.Plan
		remaining     int64 // of 10 under the plan after, when 4 of 5 were taken under the plan before
	}{
		{ration.FixedWindow{Limit: 5, Window: time.Minute}, ration.FixedWindow{Limit: 10, Window: time.Minute}, 6},
		{ration.SlidingWindow{Limit: 5, Window: time.Minute}, ration.SlidingWindow{Limit: 10, Window: time.Minute}, 6},
		{ration.SlidingWindow{Limit: 5, Window: time.Minute}, ration.SlidingWindow{Limit: 10, Window: time.Hour}, 6},
		{ration.SlidingLog{Limit: 5, Window: time.Minute}, ration.SlidingLog{Limit: 10, Window: time.Hour}, 6},
		{ration.TokenBucket{Rate: second, Burst: 5}, ration.TokenBucket{Rate: second, Burst: 10}, 1},
		{ration.TokenBucket{Rate: second, Burst: 5}, ration.TokenBucket{Rate: ration.PerDay(1), Burst: 10}, 1},
		{ration.GCRA{Rate: second, Burst: 5}, ration.GCRA{Rate: second, Burst: 10}, 10},
		{ration.GCRA{Rate: second, Burst: 5}, ration.GCRA{Rate: ration.PerDay(1), Burst: 10}, 10},
	} {
		t.Run(c.after.String(), func(t *testing.T) {
			t.Parallel()
			var plan atomic.Value
			plan.Store(c.before)
			limiter, err := rationtest.New(t).Client.Limiter("search", c.before,
				ration.WithPlanFor(func(string) (ration.Plan, bool) { return plan.Load().(ration.Plan), true }))
			require.NoError(t, err)
			d, err := limiter.AllowN(t.Context(), "key", 4)
			require.NoError(t, err)
			require.EqualValues(t, 1, d.Remaining)
			plan.Store(c.after)
			d, err = limiter.Peek(t.Context(), "key")
			require.NoError(t, err)
			require.Equal(t, c.remaining, d.Remaining)
			for left := c.remaining - 1; left >= 0; left-- {
				d, err = limiter.Allow(t.Context(), "key")
				require.NoError(t, err)
				require.True(t, d.Allowed)
				require.Equal(t, left, d.Remaining)
			}
			d, err = limiter.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.False(t, d.Allowed)
			require.NoError(t, limiter.Reset(t.Context(), "key"))
			d, err = limiter.Peek(t.Context(), "key")
			require.NoError(t, err)
			require.EqualValues(t, 10, d.Remaining)
		})
	}
}

// However many plans there are, a bounded number is kept.
func TestPlanForFloodOfPlans(t *testing.T) {
	t.Parallel()
	limiter := newLimiter(t, ration.FixedWindow{Limit: 1, Window: time.Minute})
	for i := range int64(5000) {
		_, err := limiter.Prepare(ration.FixedWindow{Limit: i + 1, Window: time.Minute})
		require.NoError(t, err)
	}
	require.LessOrEqual(t, limiter.CachedPlans(), 1024)
	again, err := limiter.Prepare(ration.FixedWindow{Limit: 5000, Window: time.Minute})
	require.NoError(t, err)
	require.EqualValues(t, 5000, again)
}

func TestLimiterNames(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	plan := ration.FixedWindow{Limit: 2, Window: time.Minute}
	first, err := server.Client.Limiter("search", plan)
	require.NoError(t, err)
	second, err := server.Client.Limiter("search", plan)
	require.NoError(t, err, "the same plan again")
	for i, limiter := range []*ration.Limiter{first, second, first} {
		d, err := limiter.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, i < 2, d.Allowed)
	}
	for _, other := range []ration.Plan{
		ration.FixedWindow{Limit: 3, Window: time.Minute}, ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 2},
	} {
		_, err = server.Client.Limiter("search", other)
		require.ErrorIs(t, err, ration.ErrLimiterConflict)
		require.ErrorContains(t, err, other.String())
	}
	for i := range 9_999 {
		_, err = server.Client.Limiter(fmt.Sprint("limiter-", i), plan)
		require.NoError(t, err)
	}
	_, err = server.Client.Limiter("one-more", plan)
	require.ErrorIs(t, err, ration.ErrTooManyLimiters)
}

func TestPrefixSeparatesQuotas(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	other, err := ration.New(server.NewRedis(t), ration.WithPrefix("other"), ration.WithTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(other.Close)
	for _, client := range []*ration.Client{server.Client, other} {
		limiter, err := client.Limiter("search", ration.FixedWindow{Limit: 1, Window: time.Minute})
		require.NoError(t, err)
		d, err := limiter.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.True(t, d.Allowed)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	for name, c := range map[string]struct {
		rdb     redis.UniversalClient
		options []ration.ClientOption
		want    error
	}{
		"nil client":         {nil, nil, ration.ErrInvalidOption},
		"nil pointer":        {(*redis.Client)(nil), nil, ration.ErrInvalidOption},
		"nil option":         {rdb, []ration.ClientOption{nil}, ration.ErrInvalidOption},
		"timeout 0":          {rdb, []ration.ClientOption{ration.WithTimeout(0)}, ration.ErrInvalidOption},
		"timeout below 0":    {rdb, []ration.ClientOption{ration.WithTimeout(-1)}, ration.ErrInvalidOption},
		"no call in flight":  {rdb, []ration.ClientOption{ration.WithMaxInFlight(0)}, ration.ErrInvalidOption},
		"empty prefix":       {rdb, []ration.ClientOption{ration.WithPrefix("")}, ration.ErrInvalidName},
		"prefix with braces": {rdb, []ration.ClientOption{ration.WithPrefix("app{x}:")}, ration.ErrInvalidName},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := ration.New(c.rdb, c.options...)
			require.ErrorIs(t, err, c.want)
			require.Nil(t, client)
		})
	}
	client, err := ration.New(rdb)
	require.NoError(t, err, "no I/O: nothing listens there")
	t.Cleanup(client.Close)
	for name, option := range map[string]ration.LimiterOption{
		"nil": nil, "WithTimeout": ration.WithTimeout(0), "WithPlanFor": ration.WithPlanFor(nil),
	} {
		_, err := client.Limiter("search", ration.FixedWindow{Limit: 1, Window: time.Minute}, option)
		require.ErrorIs(t, err, ration.ErrInvalidOption, name)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	for _, plan := range []ration.Plan{
		ration.FixedWindow{Limit: 2, Window: time.Minute},
		ration.SlidingWindow{Limit: 2, Window: time.Minute},
		ration.SlidingLog{Limit: 2, Window: time.Minute},
		ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 2},
		ration.GCRA{Rate: ration.PerSecond(1), Burst: 2},
	} {
		limiter := newLimiter(t, plan)
		require.NoError(t, limiter.Reset(context.Background(), "key"), "a fresh key")
		_, err := limiter.AllowN(t.Context(), "key", 2)
		require.NoError(t, err)
		require.NoError(t, limiter.Reset(t.Context(), "key"))
		d, err := limiter.Peek(t.Context(), "key")
		require.NoError(t, err)
		require.EqualValues(t, 2, d.Remaining)
	}
}

// What New and Client.Limiter did not make answers an error, and does not panic.
func TestZeroValues(t *testing.T) {
	t.Parallel()
	for _, client := range []*ration.Client{nil, {}} {
		_, err := client.Limiter("search", ration.FixedWindow{Limit: 1, Window: time.Minute})
		require.ErrorIs(t, err, ration.ErrClosed)
		require.ErrorIs(t, client.Ping(t.Context()), ration.ErrClosed)
		client.Close()
	}
	for _, limiter := range []*ration.Limiter{nil, {}} {
		_, err := limiter.Allow(t.Context(), "key")
		require.ErrorIs(t, err, ration.ErrClosed)
		_, err = limiter.AllowUpTo(t.Context(), "key", 1)
		require.ErrorIs(t, err, ration.ErrClosed)
		_, err = limiter.Peek(t.Context(), "key")
		require.ErrorIs(t, err, ration.ErrClosed)
		require.ErrorIs(t, limiter.Reset(t.Context(), "key"), ration.ErrClosed)
	}
	_, err := newLimiter(t, ration.FixedWindow{Limit: 1, Window: time.Minute}).Allow(nil, "key") //nolint:staticcheck // a caller's mistake
	require.NoError(t, err)
}
