// Package audit counts, from outside, whether a fleet kept to its plan: it knows when each admission was made only by the
// server's TIME taken before and after the call, and nothing of how the decision came about.
package audit

import (
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

// Bound is the most units that the plan can grant in a span of time that begins with a fresh key's first grant; of an Aligned
// window, with the start of a window too.
func Bound(plan ration.Plan, span time.Duration) (int64, error) {
	switch p := plan.(type) {
	case ration.TokenBucket:
		return p.Burst + earned(p.Rate, span), nil
	case ration.FixedWindow:
		return p.Limit * (int64(span/p.Window) + 1), nil
	default:
		return 0, unknown(plan)
	}
}

// Excess is how many units were certainly granted beyond the plan's guarantee, at one key that was fresh at the first
// admission: whenever in their spans the grants were made, at least so many were too many.
func Excess(plan ration.Plan, admissions []Admission) (int64, error) {
	byBefore := append([]Admission(nil), admissions...)
	sort.Slice(byBefore, func(i, j int) bool { return byBefore[i].Before < byBefore[j].Before })
	switch p := plan.(type) {
	case ration.TokenBucket:
		return bucketExcess(p, byBefore), nil
	case ration.FixedWindow:
		if p.Aligned {
			return gridExcess(p, byBefore), nil
		}
		return max(windowExcess(p, byBefore), runExcess(p, byBefore)), nil
	default:
		return 0, unknown(plan)
	}
}

// bucketExcess: at most Burst + Rate*(b-a) in any span [a, b]. Spans from a Before to an After are enough: any other that
// contains the same admissions is longer.
func bucketExcess(p ration.TokenBucket, byBefore []Admission) int64 {
	afters := make([]int64, len(byBefore))
	for i, a := range byBefore {
		afters[i] = a.After
	}
	sort.Slice(afters, func(i, j int) bool { return afters[i] < afters[j] })
	position := func(after int64) int {
		return sort.Search(len(afters), func(i int) bool { return afters[i] >= after })
	}
	var worst int64
	contained := make([]int64, len(afters)) // units that end at afters[i], of the admissions that begin at a or later
	for i := len(byBefore) - 1; i >= 0; i-- {
		contained[position(byBefore[i].After)] += byBefore[i].Units
		a := byBefore[i].Before
		var units int64
		for j := position(a); j < len(afters); j++ {
			units += contained[j]
			if units-p.Burst <= worst {
				continue
			}
			span := time.Duration(afters[j]-a) * time.Microsecond
			worst = max(worst, units-p.Burst-earned(p.Rate, span))
		}
	}
	return worst
}

// gridExcess: at most Limit in each window of the clock's grid, counting what was certainly granted in it.
func gridExcess(p ration.FixedWindow, admissions []Admission) int64 {
	window := p.Window.Microseconds()
	units := make(map[int64]int64)
	var excess int64
	for _, a := range admissions {
		if index := a.Before / window; index == a.After/window {
			units[index] += a.Units
			if units[index] > p.Limit {
				excess += min(a.Units, units[index]-p.Limit)
			}
		}
	}
	return excess
}

// windowMicros is the shortest that a window can be: it ends on a whole millisecond, and opens within one.
func windowMicros(p ration.FixedWindow) int64 { return p.Window.Microseconds() - 999 }

// runExcess: n windows, one after the other, cannot grant more than n limits, counted from the first grant.
func runExcess(p ration.FixedWindow, byBefore []Admission) int64 {
	if len(byBefore) == 0 {
		return 0
	}
	byAfter := append([]Admission(nil), byBefore...)
	sort.Slice(byAfter, func(i, j int) bool { return byAfter[i].After < byAfter[j].After })
	var units, worst int64
	for _, a := range byAfter {
		units += a.Units
		windows := (a.After-byBefore[0].Before)/windowMicros(p) + 1
		worst = max(worst, units-windows*p.Limit)
	}
	return worst
}

// windowExcess follows the windows one after the other, counting in each what was certainly granted in it.
func windowExcess(p ration.FixedWindow, byBefore []Admission) int64 {
	if len(byBefore) == 0 {
		return 0
	}
	var excess int64
	var unclear []Admission // may belong to a window that was looked at, or to a later one: held against none
	rest, from := byBefore, byBefore[0].Before
	for len(rest) > 0 {
		// The window opened between `from` and `until`: what is left was granted in it or later.
		until := rest[0].After
		for _, a := range rest {
			until = min(until, a.After)
		}
		var units int64
		var later []Admission
		for _, a := range rest {
			switch {
			case a.After < from+windowMicros(p):
				units += a.Units
			case a.Before > until+p.Window.Microseconds():
				later = append(later, a)
			default:
				unclear = append(unclear, a)
			}
		}
		excess += max(units-p.Limit, 0)
		// The next one opened when this one was over, with an admission that need not be one of the later ones.
		over := from + windowMicros(p)
		first := int64(math.MaxInt64)
		for _, a := range slices.Concat(later, unclear) {
			if a.After >= over {
				first = min(first, a.Before)
			}
		}
		rest, from = later, max(over, first)
	}
	return excess
}

// earned is what a rate adds in a span, rounded down.
func earned(r ration.Rate, span time.Duration) int64 {
	hi, lo := bits.Mul64(uint64(r.Units), uint64(span))
	units, _ := bits.Div64(hi, lo, uint64(r.Per))
	return int64(units)
}

func unknown(plan ration.Plan) error { return fmt.Errorf("audit: no bound is known of %v", plan) }
