package ration_test

import (
	"fmt"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/conformance"
	"github.com/go-ration/ration/internal/model"
)

// drawBucket draws rates whose tokens do and do not fall on whole microseconds, slow and fast, of those that are counted
// exactly. (TestRateIsExactOrLower has the others.)
func drawBucket(t *rapid.T) ration.TokenBucket {
	rate := rapid.Custom(func(t *rapid.T) ration.Rate {
		return ration.Rate{
			Units: rapid.SampledFrom([]int64{1, 2, 3, 7, 10, 11, 60, 100, 1000, 2000, 999_983}).Draw(t, "units"),
			Per: rapid.SampledFrom([]time.Duration{
				1500 * time.Nanosecond, time.Millisecond, time.Second, 1500 * time.Millisecond, 7 * time.Second, time.Minute, 24 * time.Hour,
				// Denominators whose product is far beyond 2^53, when one rate changes to the other.
				86_399_999_999 * time.Microsecond, 7 * 24 * time.Hour,
			}).Draw(t, "per"),
		}
	}).Filter(func(r ration.Rate) bool {
		num, den, err := ration.Exact(r)
		return err == nil && perMicro(r).Cmp(big.NewRat(num, den)) == 0
	})
	return ration.TokenBucket{
		Rate:  rate.Draw(t, "rate"),
		Burst: rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 1000)).Draw(t, "burst"),
	}
}

func drawWindow(t *rapid.T) ration.FixedWindow {
	shape := rapid.IntRange(0, 2).Draw(t, "shape")
	return ration.FixedWindow{
		Limit:         rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 1000)).Draw(t, "limit"),
		Window:        time.Duration(rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 100_000)).Draw(t, "window")) * time.Millisecond,
		Aligned:       shape == 1,
		RestartOnDeny: shape == 2,
	}
}

// limitOf is the greatest cost that a plan can admit.
func limitOf(plan ration.Plan) int64 {
	if p, isBucket := plan.(ration.TokenBucket); isBucket {
		return p.Burst
	}
	return plan.(ration.FixedWindow).Limit
}

// scale is about how long a plan takes to admit the next request, so that pauses are drawn neither all too short nor too long.
func scale(plan ration.Plan) time.Duration {
	if p, isBucket := plan.(ration.TokenBucket); isBucket {
		return max(p.Rate.Per/time.Duration(p.Rate.Units), time.Microsecond)
	}
	return plan.(ration.FixedWindow).Window
}

// A script, its twin and the model give the same answers to the same requests.
func TestModelOfTokenBucket(t *testing.T) {
	t.Parallel()
	backend := newMiniredisBackend(t)
	rapid.Check(t, func(t *rapid.T) {
		plan := drawBucket(t)
		c := newComparison(t, backend, plan)
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			back := rapid.IntRange(0, 9).Draw(t, "back") == 0
			pause := time.Duration(rapid.Int64Range(0, int64(3*scale(plan))).Draw(t, "pause")).Truncate(time.Microsecond)
			if back {
				pause *= -time.Duration(rapid.Int64Range(1, 2*plan.Burst).Draw(t, "far"))
			}
			c.pass(pause)
			c.take(t)
			// What was stored is to live until the bucket is full, and no shorter; then it is made to live longer, since
			// miniredis lets lifetimes run down even when the clock goes back.
			c.livesUntilFull(t)
			c.persist(t)
		}
	})
}

func TestModelOfFixedWindow(t *testing.T) {
	t.Parallel()
	backend := newMiniredisBackend(t)
	rapid.Check(t, func(t *rapid.T) {
		plan := drawWindow(t)
		c := newComparison(t, backend, plan)
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			// Whole milliseconds: in parts of one, miniredis sees a key end up to a millisecond early.
			c.pass(time.Duration(rapid.Int64Range(0, plan.Window.Milliseconds()).Draw(t, "pause")) * time.Millisecond / 2)
			c.take(t)
		}
	})
}

// The twin knows one plan; script and model answer alike when the plan of a key changes.
func TestModelOfChangedTokenBucket(t *testing.T) {
	t.Parallel()
	backend := newMiniredisBackend(t)
	rapid.Check(t, func(t *rapid.T) {
		plan := drawBucket(t)
		c := newComparison(t, backend, plan)
		c.twin = nil
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			if rapid.IntRange(0, 3).Draw(t, "change") == 0 {
				plan = drawBucket(t)
				c.change(plan)
			}
			c.pass(time.Duration(rapid.Int64Range(0, int64(3*scale(plan))).Draw(t, "pause")).Truncate(time.Microsecond))
			c.take(t)
			c.persist(t)
		}
	})
}

func TestModelOfChangedFixedWindow(t *testing.T) {
	t.Parallel()
	backend := newMiniredisBackend(t)
	rapid.Check(t, func(t *rapid.T) {
		plan := drawWindow(t)
		c := newComparison(t, backend, plan)
		c.twin = nil
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			if rapid.IntRange(0, 3).Draw(t, "change") == 0 {
				plan = drawWindow(t)
				c.change(plan)
			}
			c.pass(time.Duration(rapid.Int64Range(0, plan.Window.Milliseconds()).Draw(t, "pause")) * time.Millisecond / 2)
			c.take(t)
		}
	})
}

// comparison drives a script, a twin and a model with the same operations.
type comparison struct {
	backend *miniredisBackend
	limiter *ration.Limiter
	twin    *ration.Twin // nil: left out
	model   model.Model
	plan    ration.Plan
	now     time.Time
	reset   time.Duration // of the last answer
}

var comparisons atomic.Int64

func newComparison(t *rapid.T, backend *miniredisBackend, plan ration.Plan) *comparison {
	limiter, err := ration.NewUnregistered(backend.client, fmt.Sprintf("model-%d", comparisons.Add(1)), plan)
	require.NoError(t, err)
	twin, err := ration.NewTwin(plan)
	require.NoError(t, err)
	c := &comparison{
		backend: backend, limiter: limiter, twin: twin, model: model.New(plan), plan: plan,
		now: conformance.T0.Add(time.Duration(rapid.Int64Range(0, 1_000_000).Draw(t, "start")) * time.Microsecond),
	}
	if _, isWindow := plan.(ration.FixedWindow); isWindow {
		c.now = c.now.Truncate(time.Millisecond)
	}
	return c
}

func (c *comparison) pass(d time.Duration) {
	if _, isWindow := c.plan.(ration.FixedWindow); isWindow {
		d = d.Truncate(time.Millisecond)
	}
	c.now = c.now.Add(d)
}

func (c *comparison) change(plan ration.Plan) {
	c.plan = plan
	c.model.Change(plan)
}

func (c *comparison) take(t *rapid.T) {
	limit := limitOf(c.plan)
	cost := rapid.OneOf(rapid.Int64Range(0, min(3, limit)), rapid.Int64Range(0, limit)).Draw(t, "cost")
	count := rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, 5)).Draw(t, "count")
	c.backend.SetTime(c.now)
	got, err := c.limiter.TakeCount(t.Context(), "key", c.plan, cost, count)
	require.NoError(t, err)
	want := c.model.Take(c.now.UnixMicro(), cost, count)
	require.Equal(t, c.expected(want, cost), got, "script, at %v, %d of %d", c.now, count, cost)
	c.reset = got.ResetAfter
	if c.twin != nil {
		twins, _ := c.twin.TakeAt(c.now.UnixMicro(), cost, count, false)
		require.Equal(t, got, twins, "twin, at %v, %d of %d", c.now, count, cost)
		require.Equal(t, c.peeked(t), c.twin.PeekAt(c.now.UnixMicro()), "peek")
	}
}

func (c *comparison) peeked(t *rapid.T) ration.Decision {
	d, err := c.limiter.Peek(t.Context(), "key")
	require.NoError(t, err)
	return d
}

// expected is the decision that the model's answer amounts to.
func (c *comparison) expected(a model.Answer, cost int64) ration.Decision {
	d := ration.Decision{
		Allowed:    a.Granted > 0,
		Granted:    a.Granted * cost,
		Limit:      limitOf(c.plan),
		Remaining:  a.Remaining,
		ResetAfter: time.Duration(a.ResetAfter) * time.Microsecond,
		Source:     ration.SourceRedis,
		Plan:       c.plan.String(),
	}
	if !d.Allowed {
		d.RetryAfter = time.Duration(a.RetryAfter) * time.Microsecond
	}
	return d
}

func (c *comparison) livesUntilFull(t *rapid.T) {
	stored := c.limiter.StoredKey("key")
	if !c.backend.server.Exists(stored) {
		require.Zero(t, c.reset, "nothing is stored, but the bucket is not full")
		return
	}
	left := c.backend.server.TTL(stored)
	require.GreaterOrEqual(t, left, c.reset.Truncate(time.Millisecond), "lifetime")
	require.Positive(t, left)
}

func (c *comparison) persist(t *rapid.T) {
	require.NoError(t, c.backend.redis.Persist(t.Context(), c.limiter.StoredKey("key")).Err())
}
