package ration_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// What took nothing is given back without a word to Redis.
func TestNothingToGiveBack(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	limiter, err := server.Client.Limiter("search", ration.FixedWindow{Limit: 1, Window: time.Minute})
	require.NoError(t, err)
	_, err = limiter.Allow(t.Context(), "user:7")
	require.NoError(t, err)
	denied, err := limiter.Allow(t.Context(), "user:7")
	require.NoError(t, err)
	require.False(t, denied.Allowed)
	look, err := limiter.AllowN(t.Context(), "user:7", 0)
	require.NoError(t, err)
	peeked, err := limiter.Peek(t.Context(), "user:7")
	require.NoError(t, err)

	nowhere := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = nowhere.Close() })
	away, err := ration.New(nowhere)
	require.NoError(t, err)
	t.Cleanup(away.Close)
	unreachable, err := away.Limiter("search", ration.FixedWindow{Limit: 1, Window: time.Minute})
	require.NoError(t, err)
	for name, d := range map[string]ration.Decision{"denied": denied, "look": look, "peek": peeked, "zero": {}} {
		require.NoError(t, unreachable.Refund(t.Context(), d), name)
	}
}

// A decision is given back by a limiter of the same name on the same Client, and by no other.
func TestRefundOfAnotherLimiter(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	plan := ration.TokenBucket{Rate: ration.PerMinute(1), Burst: 5}
	search, err := server.Client.Limiter("search", plan)
	require.NoError(t, err)
	same, err := server.Client.Limiter("search", plan)
	require.NoError(t, err)
	upload, err := server.Client.Limiter("upload", plan)
	require.NoError(t, err)
	elsewhere, err := rationtest.New(t).Client.Limiter("search", plan)
	require.NoError(t, err)

	d, err := search.AllowN(t.Context(), "user:7", 5)
	require.NoError(t, err)
	require.ErrorIs(t, upload.Refund(t.Context(), d), ration.ErrForeignDecision)
	require.ErrorIs(t, elsewhere.Refund(t.Context(), d), ration.ErrForeignDecision)
	require.ErrorIs(t, search.Refund(t.Context(), ration.Decision{Allowed: true, Granted: 5}), ration.ErrForeignDecision)
	require.NoError(t, same.Refund(t.Context(), d))
	d, err = search.Peek(t.Context(), "user:7")
	require.NoError(t, err)
	require.EqualValues(t, 5, d.Remaining)

	require.ErrorIs(t, (*ration.Limiter)(nil).Refund(t.Context(), d), ration.ErrClosed)
	require.ErrorIs(t, new(ration.Limiter).Refund(t.Context(), d), ration.ErrClosed)
}

// A refund goes to the key and the plan that decided, whatever those of the limiter are now.
func TestRefundOfRequestPlan(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	limiter, err := server.Client.Limiter("search", ration.GCRA{Rate: ration.PerMinute(1), Burst: 5})
	require.NoError(t, err)
	own := ration.GCRA{Rate: ration.PerMinute(10), Burst: 50}
	d, err := limiter.Take(t.Context(), ration.Request{Key: "{acme}:user:7", Cost: 50, Plan: own})
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.NoError(t, limiter.Refund(t.Context(), d))
	d, err = limiter.Take(t.Context(), ration.Request{Key: "{acme}:user:7", Plan: own})
	require.NoError(t, err)
	require.EqualValues(t, 50, d.Remaining)
}

// What AllowUpTo took comes back as a whole.
func TestRefundOfAllowUpTo(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	for name, plan := range map[string]ration.Plan{
		"fixed-window":   ration.FixedWindow{Limit: 10, Window: time.Minute},
		"sliding-window": ration.SlidingWindow{Limit: 10, Window: time.Minute},
		"sliding-log":    ration.SlidingLog{Limit: 10, Window: time.Minute},
		"token-bucket":   ration.TokenBucket{Rate: ration.PerMinute(10), Burst: 10},
		"gcra":           ration.GCRA{Rate: ration.PerMinute(10), Burst: 10},
	} {
		limiter, err := server.Client.Limiter(name, plan)
		require.NoError(t, err)
		_, err = limiter.AllowN(t.Context(), "user:7", 4)
		require.NoError(t, err)
		d, err := limiter.AllowUpTo(t.Context(), "user:7", 100)
		require.NoError(t, err)
		require.EqualValues(t, 6, d.Granted, plan)
		require.NoError(t, limiter.Refund(t.Context(), d))
		d, err = limiter.AllowN(t.Context(), "user:7", 0)
		require.NoError(t, err)
		require.EqualValues(t, 6, d.Remaining, plan)
	}
}

// The request that ended is often why something is given back.
func TestRefundAfterTheRequestEnded(t *testing.T) {
	t.Parallel()
	client := rationtest.New(t).Client
	chain, user, all := newChain(t, client, perMinute(5), perMinute(7))
	ctx, cancel := context.WithCancel(t.Context())
	d, err := user.AllowN(ctx, "user:7", 2)
	require.NoError(t, err)
	chained, err := chain.AllowN(ctx, "user:7", 3)
	require.NoError(t, err)
	cancel()
	require.NoError(t, user.Refund(ctx, d))
	require.NoError(t, chain.Refund(ctx, chained))
	require.EqualValues(t, 5, remaining(t, user, "user:7"))
	require.EqualValues(t, 7, remaining(t, all, ""))
}

// What is granted between and after refunds, however they overlap, is granted too where what is given back was never taken.
func TestRefundsHelpNobody(t *testing.T) {
	t.Parallel()
	const second = int64(1_000_000)
	for name, draw := range map[string]func(limit int64, span time.Duration) ration.Plan{
		"aligned": func(limit int64, span time.Duration) ration.Plan {
			return ration.FixedWindow{Limit: limit, Window: span, Aligned: true}
		},
		"sliding-window": func(limit int64, span time.Duration) ration.Plan {
			return ration.SlidingWindow{Limit: limit, Window: span}
		},
		"sliding-log": func(limit int64, span time.Duration) ration.Plan {
			return ration.SlidingLog{Limit: limit, Window: span}
		},
		"token-bucket": func(limit int64, span time.Duration) ration.Plan {
			return ration.TokenBucket{Rate: ration.Rate{Units: 3, Per: span}, Burst: limit}
		},
		"gcra": func(limit int64, span time.Duration) ration.Plan {
			return ration.GCRA{Rate: ration.Rate{Units: 3, Per: span}, Burst: limit}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) {
				limit := rapid.Int64Range(1, 20).Draw(r, "limit")
				plan := draw(limit, time.Duration(rapid.SampledFrom([]int64{1000, 1001, 7000}).Draw(r, "span"))*time.Millisecond)
				with, err := ration.NewTwin(plan)
				require.NoError(r, err)
				without, err := ration.NewTwin(plan)
				require.NoError(r, err)
				now := 1_700_000_000 * second
				var open []ration.Decision // to be given back
				for range rapid.IntRange(1, 60).Draw(r, "operations") {
					now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, second), rapid.Just(second/3)).Draw(r, "pause")
					if len(open) > 0 && rapid.Bool().Draw(r, "refund") {
						i := rapid.IntRange(0, len(open)-1).Draw(r, "which")
						with.RefundAt(now, open[i])
						open = append(open[:i], open[i+1:]...)
						continue
					}
					cost := rapid.Int64Range(1, limit).Draw(r, "cost")
					d := with.TakeAt(now, cost, 1, false)
					switch {
					case !d.Allowed:
					case rapid.Bool().Draw(r, "to be given back"):
						open = append(open, d)
					default:
						asIf := without.TakeAt(now, cost, 1, false)
						require.True(r, asIf.Allowed, "%d units at %d", cost, now)
					}
				}
			})
		})
	}
}
