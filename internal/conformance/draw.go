package conformance

import (
	"math/big"
	"time"

	"pgregory.net/rapid"

	"github.com/go-ration/ration"
)

// limitOf is the greatest cost that a plan can admit.
func limitOf(plan ration.Plan) int64 {
	switch p := plan.(type) {
	case ration.FixedWindow:
		return p.Limit
	case ration.SlidingWindow:
		return p.Limit
	case ration.SlidingLog:
		return p.Limit
	case ration.TokenBucket:
		return p.Burst
	case ration.GCRA:
		return p.Burst
	case ration.MultiPlan:
		least := limitOf(p[0].Plan)
		for _, one := range p {
			least = min(least, limitOf(one.Plan))
		}
		return least
	default:
		panic("unknown plan " + plan.String())
	}
}

// scale is about how long a plan takes to admit the next request, so that pauses are neither all too short nor too long.
func scale(plan ration.Plan) time.Duration {
	of := func(r ration.Rate) time.Duration { return max(r.Per/time.Duration(r.Units), time.Microsecond) }
	switch p := plan.(type) {
	case ration.FixedWindow:
		return p.Window / 2
	case ration.SlidingWindow:
		return p.Window / 2
	case ration.SlidingLog:
		return p.Window / 2
	case ration.TokenBucket:
		return of(p.Rate)
	case ration.GCRA:
		return of(p.Rate)
	default:
		panic("unknown plan " + plan.String())
	}
}

func drawLimit(r *rapid.T) int64 {
	return rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 1000)).Draw(r, "limit")
}

func drawLength(r *rapid.T) time.Duration {
	return time.Duration(rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 100_000)).Draw(r, "window")) * time.Millisecond
}

func drawFixedWindow(r *rapid.T) ration.Plan {
	shape := rapid.IntRange(0, 2).Draw(r, "shape")
	return ration.FixedWindow{Limit: drawLimit(r), Window: drawLength(r), Aligned: shape == 1, RestartOnDeny: shape == 2}
}

// drawSlidingWindow draws counts whose product with a window does and does not leave 2^53 microseconds.
func drawSlidingWindow(r *rapid.T) ration.Plan {
	p := ration.SlidingWindow{Limit: drawLimit(r), Window: drawLength(r)}
	if rapid.IntRange(0, 4).Draw(r, "large") == 0 {
		p.Limit = rapid.Int64Range(1_000_000, 1<<52).Draw(r, "limit")
		p.Window *= 10_000
	}
	return p
}

func drawSlidingLog(r *rapid.T) ration.Plan {
	limit := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 100)).Draw(r, "limit")
	return ration.SlidingLog{Limit: limit, Window: drawLength(r)}
}

// drawTokenBucket draws rates whose tokens do and do not fall on whole microseconds, slow and fast, of those that are counted
// exactly.
func drawTokenBucket(r *rapid.T) ration.TokenBucket {
	rate := rapid.Custom(func(r *rapid.T) ration.Rate {
		return ration.Rate{
			Units: rapid.SampledFrom([]int64{1, 2, 3, 7, 10, 11, 60, 100, 1000, 2000, 999_983}).Draw(r, "units"),
			Per: rapid.SampledFrom([]time.Duration{
				1500 * time.Nanosecond, time.Millisecond, time.Second, 1500 * time.Millisecond, 7 * time.Second, time.Minute, 24 * time.Hour,
				// Denominators whose product is far beyond 2^53, when one rate changes to the other.
				86_399_999_999 * time.Microsecond, 7 * 24 * time.Hour,
			}).Draw(r, "per"),
		}
	}).Filter(isExact)
	return ration.TokenBucket{Rate: rate.Draw(r, "rate"), Burst: drawLimit(r)}
}

func drawBucket(r *rapid.T) ration.Plan { return drawTokenBucket(r) }

// drawMultiPlan draws a few plans of any kind that may be in a MultiPlan.
func drawMultiPlan(r *rapid.T) ration.Plan {
	fixed := func(r *rapid.T) ration.Plan {
		return ration.FixedWindow{Limit: drawLimit(r), Window: drawLength(r), Aligned: rapid.Bool().Draw(r, "aligned")}
	}
	kinds := []func(*rapid.T) ration.Plan{fixed, drawSlidingWindow, drawSlidingLog, drawBucket, drawGCRA}
	var all ration.MultiPlan
	for i := range rapid.IntRange(1, 4).Draw(r, "plans") {
		plan := kinds[rapid.IntRange(0, len(kinds)-1).Draw(r, "kind")](r)
		all = append(all, ration.NamedPlan{Name: string(rune('a' + i)), Plan: plan})
	}
	return all
}

// isExact says whether a rate is counted as it is, and not as the nearest one below: num/den units a microsecond, in lowest
// terms, with den*(num+1) up to 2^52.
func isExact(r ration.Rate) bool {
	rate := big.NewRat(r.Units*1000, int64(r.Per))
	size := new(big.Int).Add(rate.Num(), big.NewInt(1))
	return size.Mul(size, rate.Denom()).Cmp(big.NewInt(1<<52)) <= 0
}

func drawGCRA(r *rapid.T) ration.Plan {
	return rapid.Custom(func(r *rapid.T) ration.Plan {
		return ration.GCRA(drawTokenBucket(r))
	}).Filter(func(p ration.Plan) bool {
		_, err := ration.ParsePlan(p.String())
		return err == nil // not so where the burst is too great for the rate
	}).Draw(r, "plan")
}
