// Package audit counts, from outside, whether a fleet kept to its plan: it knows when each admission was made only by the
// server's TIME taken before and after the call, and nothing of how the decision came about.
package audit

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"

	"github.com/go-ration/ration"
)

// Admission is a grant that was made at some moment between two readings of the server's clock.
type Admission struct {
	Before, After int64 // microseconds since 1970, Before <= After
	Units         int64
}

// Bound is the most units that the plan can grant in a span of time that begins with a fresh key's first grant; where windows
// are those of the clock's grid (Aligned, SlidingWindow), with the start of a window too. Both ends belong to the span.
func Bound(plan ration.Plan, span time.Duration) (int64, error) {
	switch p := plan.(type) {
	case ration.TokenBucket:
		return bucketMost(p, 0, span.Microseconds()), nil
	case ration.GCRA:
		return bucketMost(ration.TokenBucket(p), 0, span.Microseconds()), nil
	case ration.SlidingLog:
		return logMost(p, 0, span.Microseconds()), nil
	case ration.SlidingWindow:
		return slidingMost(p, 0, span.Microseconds()), nil
	case ration.FixedWindow:
		return mulDiv(p.Limit, int64(span/p.Window)+1, 1), nil
	default:
		return 0, unknown(plan)
	}
}

// Excess is how many units were certainly granted beyond the plan's guarantee, at one key that was fresh at the first
// admission: whenever in their spans the grants were made, at least so many were too many.
func Excess(plan ration.Plan, admissions []Admission) (int64, error) {
	byBefore := slices.Clone(admissions)
	slices.SortFunc(byBefore, func(x, y Admission) int { return cmp.Compare(x.Before, y.Before) })
	switch p := plan.(type) {
	case ration.TokenBucket:
		return spanExcess(byBefore, func(a, b int64) int64 { return bucketMost(p, a, b) }), nil
	case ration.GCRA:
		return spanExcess(byBefore, func(a, b int64) int64 { return bucketMost(ration.TokenBucket(p), a, b) }), nil
	case ration.SlidingLog:
		return spanExcess(byBefore, func(a, b int64) int64 { return logMost(p, a, b) }), nil
	case ration.SlidingWindow:
		return max(estimateExcess(p, byBefore), spanExcess(byBefore, func(a, b int64) int64 { return slidingMost(p, a, b) })), nil
	case ration.FixedWindow:
		switch {
		case p.Aligned:
			return gridExcess(p, byBefore), nil
		case p.RestartOnDeny:
			return max(runExcess(p, byBefore), spanExcess(byBefore, func(a, b int64) int64 { return touchedMost(p, a, b) })), nil
		}
		return max(runExcess(p, byBefore), windowExcess(p, byBefore)), nil
	default:
		return 0, unknown(plan)
	}
}

// spanExcess: at most most(a, b) units in any span of microseconds [a, b], both included, that only grows with the span. What
// was certainly granted in one are the admissions that it contains. Spans from a Before to an After are enough: any other that
// contains the same admissions is longer.
func spanExcess(byBefore []Admission, most func(a, b int64) int64) int64 {
	afters := make([]int64, len(byBefore))
	for i, a := range byBefore {
		afters[i] = a.After
	}
	slices.Sort(afters)
	position := func(after int64) int {
		return sort.Search(len(afters), func(i int) bool { return afters[i] >= after })
	}
	var worst int64
	contained := make([]int64, len(afters)) // units that end at afters[i], of the admissions that begin at a or later
	for i := len(byBefore) - 1; i >= 0; i-- {
		contained[position(byBefore[i].After)] += byBefore[i].Units
		a := byBefore[i].Before
		var units int64
		least := most(a, a)
		for j := position(a); j < len(afters); j++ {
			units += contained[j]
			if units-least > worst {
				worst = max(worst, units-most(a, afters[j]))
			}
		}
	}
	return worst
}

// bucketMost: Burst, and what is earned.
func bucketMost(p ration.TokenBucket, a, b int64) int64 {
	earned := mulDiv(p.Rate.Units, (b-a)*1000, int64(p.Rate.Per))
	return p.Burst + min(earned, math.MaxInt64-p.Burst)
}

// logMost: Limit in a window, which is open at its start: the microseconds a to a+Window-1 are one. So many as it takes to
// cover the span.
func logMost(p ration.SlidingLog, a, b int64) int64 {
	return mulDiv(p.Limit, (b-a)/p.Window.Microseconds()+1, 1)
}

// mulDiv is a*b/c rounded down, and at most the greatest int64, for a and b >= 0 and c > 0.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(quotient, math.MaxInt64))
}

func unknown(plan ration.Plan) error { return fmt.Errorf("audit: no bound is known of %v", plan) }
