package audit_test

import (
	"cmp"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/audit"
	"github.com/go-ration/ration/internal/model"
)

// kind is a sort of plan, drawn with numbers so small that a few requests exhaust it.
type kind struct {
	name string
	draw func(t *rapid.T) ration.Plan
}

var (
	kinds = []kind{
		{"aligned", func(t *rapid.T) ration.Plan {
			return ration.FixedWindow{Limit: drawLimit(t), Window: drawWindow(t), Aligned: true}
		}},
		{"sliding-window", func(t *rapid.T) ration.Plan {
			return ration.SlidingWindow{Limit: drawLimit(t), Window: drawWindow(t)}
		}},
		{"sliding-log", func(t *rapid.T) ration.Plan { return ration.SlidingLog{Limit: drawLimit(t), Window: drawWindow(t)} }},
		{"token-bucket", func(t *rapid.T) ration.Plan { return drawBucket(t) }},
		{"gcra", func(t *rapid.T) ration.Plan { return ration.GCRA(drawBucket(t)) }},
	}
	// anyTime is of windows that open at any time, with a grant. Of these not all can be told from the grants, even where
	// their moments are known: a window may be shorter by up to a millisecond.
	anyTime = kind{"any time", func(t *rapid.T) ration.Plan {
		return ration.FixedWindow{Limit: drawLimit(t), Window: drawWindow(t), RestartOnDeny: rapid.Bool().Draw(t, "restart on deny")}
	}}
)

func drawLimit(t *rapid.T) int64 { return rapid.Int64Range(1, 8).Draw(t, "limit") }

func drawWindow(t *rapid.T) time.Duration {
	return time.Duration(rapid.Int64Range(1, 5).Draw(t, "window")) * time.Millisecond
}

func drawBucket(t *rapid.T) ration.TokenBucket {
	per := time.Duration(rapid.Int64Range(1, 5_000).Draw(t, "per")) * time.Microsecond
	return ration.TokenBucket{Rate: ration.Rate{Units: rapid.Int64Range(1, 3).Draw(t, "rate"), Per: per}, Burst: drawLimit(t)}
}

// scaleOf is the length of a window, in microseconds, or how long it takes to earn a few units.
func scaleOf(plan ration.Plan) int64 {
	switch p := plan.(type) {
	case ration.FixedWindow:
		return p.Window.Microseconds()
	case ration.SlidingWindow:
		return p.Window.Microseconds()
	case ration.SlidingLog:
		return p.Window.Microseconds()
	case ration.TokenBucket:
		return 2 * p.Rate.Per.Microseconds()
	case ration.GCRA:
		return 2 * p.Rate.Per.Microseconds()
	default:
		panic("unknown plan " + plan.String())
	}
}

func limitOf(t require.TestingT, plan ration.Plan) int64 {
	limit, err := audit.Bound(plan, 0)
	require.NoError(t, err)
	return limit
}

// drawMoments draws moments in order, in microseconds: close together, apart, and on either side of where a window of the
// grid ends.
func drawMoments(t *rapid.T, plan ration.Plan) []int64 {
	scale := scaleOf(plan)
	now := 1_700_000_040_000_000 / scale * scale
	return rapid.Map(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) func(int64) int64 {
		if rapid.IntRange(0, 4).Draw(t, "to the end of a window") == 0 {
			beyond := rapid.Int64Range(-1, 1).Draw(t, "beyond")
			return func(now int64) int64 { return max((now/scale+1)*scale+beyond, now) }
		}
		pause := rapid.OneOf(
			rapid.Just(int64(0)), rapid.Int64Range(0, scale/4), rapid.Int64Range(0, 3*scale),
		).Draw(t, "pause")
		return func(now int64) int64 { return now + pause }
	}), 1, 60), func(steps []func(int64) int64) []int64 {
		moments := make([]int64, 0, len(steps))
		for _, step := range steps {
			now = step(now)
			moments = append(moments, now)
		}
		return moments
	}).Draw(t, "moments")
}

// drawGrants draws what a correct limiter grants to requests at random, each at a moment that is known exactly.
func drawGrants(t *rapid.T, plan ration.Plan) []audit.Admission {
	limiter, limit := model.New(plan), limitOf(t, plan)
	var grants []audit.Admission
	for _, now := range drawMoments(t, plan) {
		ask := model.Ask{
			Cost:  rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, limit)).Draw(t, "cost"),
			Count: rapid.OneOf(rapid.Just(limit), rapid.Int64Range(1, limit)).Draw(t, "count"),
		}
		for range limiter.Take(now, ask).Granted {
			grants = append(grants, audit.Admission{Before: now, After: now, Units: ask.Cost})
		}
	}
	return grants
}

// drawAny draws admissions of no limiter at all, each at a moment that is known exactly.
func drawAny(t *rapid.T, plan ration.Plan) []audit.Admission {
	var admissions []audit.Admission
	for _, now := range drawMoments(t, plan) {
		units := rapid.Int64Range(1, limitOf(t, plan)).Draw(t, "units")
		admissions = append(admissions, audit.Admission{Before: now, After: now, Units: units})
	}
	return admissions
}

// drawVague makes the moments less well known, some by much, and changes the order.
func drawVague(t *rapid.T, plan ration.Plan, admissions []audit.Admission) []audit.Admission {
	by := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, scaleOf(plan)/8), rapid.Int64Range(0, 3*scaleOf(plan)))
	vague := make([]audit.Admission, len(admissions))
	for i, a := range admissions {
		vague[i] = audit.Admission{Before: a.Before - by.Draw(t, "before"), After: a.After + by.Draw(t, "after"), Units: a.Units}
	}
	if len(vague) < 2 {
		return vague
	}
	return rapid.Permutation(vague).Draw(t, "order")
}

func excess(t require.TestingT, plan ration.Plan, admissions []audit.Admission) int64 {
	got, err := audit.Excess(plan, admissions)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got, int64(0))
	return got
}

func onEach(t *testing.T, kinds []kind, check func(t *rapid.T, plan ration.Plan)) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) { check(r, kind.draw(r)) })
		})
	}
}

// Whatever a correct limiter grants, and however little is known of when, is not held against it.
func TestNoExcessOfCorrectLimiter(t *testing.T) {
	t.Parallel()
	onEach(t, append(slices.Clone(kinds), anyTime), func(t *rapid.T, plan ration.Plan) {
		grants := drawGrants(t, plan)
		require.Zero(t, excess(t, plan, grants), "%v", plan)
		require.Zero(t, excess(t, plan, drawVague(t, plan, grants)), "%v", plan)
	})
}

// Nor is it held against it that more was admitted than it granted, beyond what that was: Excess counts units.
func TestExcessIsAtMostWhatWasTooMuch(t *testing.T) {
	t.Parallel()
	onEach(t, kinds, func(t *rapid.T, plan ration.Plan) {
		admissions := drawGrants(t, plan)
		last := int64(1_700_000_040_000_000)
		for _, a := range admissions {
			last = max(last, a.After)
		}
		var more int64
		for range rapid.IntRange(1, 10).Draw(t, "more") {
			at, units := last-rapid.Int64Range(0, 5*scaleOf(plan)).Draw(t, "at"), rapid.Int64Range(1, 3).Draw(t, "units")
			admissions = append(admissions, audit.Admission{Before: at, After: at, Units: units})
			more += units
		}
		require.LessOrEqual(t, excess(t, plan, drawVague(t, plan, admissions)), more, "%v", plan)
	})
}

// The less is known, the less is held against the plan.
func TestExcessIsNotOfVagueness(t *testing.T) {
	t.Parallel()
	onEach(t, kinds, func(t *rapid.T, plan ration.Plan) {
		admissions := drawAny(t, plan)
		vague := drawVague(t, plan, admissions)
		require.LessOrEqual(t, excess(t, plan, vague), excess(t, plan, admissions), "%v", plan)
		require.LessOrEqual(t, excess(t, plan, drawVague(t, plan, vague)), excess(t, plan, vague), "%v", plan)
	})
}

// Where each moment is known, every violation is found.
func TestExcessFindsEveryViolation(t *testing.T) {
	t.Parallel()
	onEach(t, kinds, func(t *rapid.T, plan ration.Plan) {
		admissions := drawAny(t, plan)
		if rapid.Bool().Draw(t, "just too much") {
			admissions = drawGrants(t, plan)
			admissions[rapid.IntRange(0, len(admissions)-1).Draw(t, "where")].Units++
		}
		require.Equal(t, violates(plan, admissions), excess(t, plan, admissions) > 0, "%v: %v", plan, admissions)
	})
}

// violates says whether admissions at known moments, in order, break the guarantee of a plan, by its words alone.
func violates(plan ration.Plan, admissions []audit.Admission) bool {
	within := func(most int64, from, until int64) bool { // most units, from and until included
		for _, a := range admissions {
			if from <= a.After && a.After <= until {
				most -= a.Units
			}
		}
		return most >= 0
	}
	for i, last := range admissions {
		now := last.After
		switch p := plan.(type) {
		case ration.FixedWindow: // Aligned
			window := p.Window.Microseconds()
			if start := now / window * window; !within(p.Limit, start, start+window-1) {
				return true
			}
		case ration.SlidingLog:
			if !within(p.Limit, now-p.Window.Microseconds()+1, now) {
				return true
			}
		case ration.SlidingWindow:
			window := p.Window.Microseconds()
			estimate := new(big.Rat)
			for _, a := range admissions[:i+1] {
				switch now/window - a.After/window {
				case 0:
					estimate.Add(estimate, big.NewRat(a.Units, 1))
				case 1:
					estimate.Add(estimate, big.NewRat(a.Units*(window-now%window), window))
				}
			}
			if estimate.Cmp(big.NewRat(p.Limit, 1)) > 0 {
				return true
			}
		case ration.TokenBucket:
			if empties(p, admissions) {
				return true
			}
		case ration.GCRA:
			if empties(ration.TokenBucket(p), admissions) {
				return true
			}
		}
	}
	return false
}

// empties says whether a bucket that grants all of this goes below zero.
func empties(p ration.TokenBucket, admissions []audit.Admission) bool {
	burst := big.NewRat(p.Burst, 1)
	level, at := new(big.Rat).Set(burst), admissions[0].After
	for _, a := range admissions {
		level.Add(level, big.NewRat((a.After-at)*p.Rate.Units, p.Rate.Per.Microseconds()))
		if level.Cmp(burst) > 0 {
			level.Set(burst)
		}
		at = a.After
		if level.Sub(level, big.NewRat(a.Units, 1)).Sign() < 0 {
			return true
		}
	}
	return false
}

// What a correct limiter grants from its first grant to any other is within the bound.
func TestBoundOfCorrectLimiter(t *testing.T) {
	t.Parallel()
	onEach(t, kinds, func(t *rapid.T, plan ration.Plan) {
		grants := drawGrants(t, plan)
		if len(grants) == 0 {
			return
		}
		slices.SortFunc(grants, func(x, y audit.Admission) int { return cmp.Compare(x.After, y.After) })
		start := grants[0].After
		switch p := plan.(type) {
		case ration.FixedWindow:
			start -= start % p.Window.Microseconds()
		case ration.SlidingWindow:
			start -= start % p.Window.Microseconds()
		}
		var units int64
		for _, a := range grants {
			units += a.Units
			bound, err := audit.Bound(plan, time.Duration(a.After-start)*time.Microsecond)
			require.NoError(t, err)
			require.LessOrEqual(t, units, bound, "%v, after %d us", plan, a.After-start)
		}
	})
}
