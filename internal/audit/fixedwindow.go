package audit

import (
	"cmp"
	"math"
	"slices"

	"github.com/go-ration/ration"
)

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
	byAfter := slices.Clone(byBefore)
	slices.SortFunc(byAfter, func(x, y Admission) int { return cmp.Compare(x.After, y.After) })
	var units, worst int64
	for _, a := range byAfter {
		units += a.Units
		windows := (a.After-byBefore[0].Before)/windowMicros(p) + 1
		worst = max(worst, units-mulDiv(p.Limit, windows, 1))
	}
	return worst
}

// touchedMost: one window is open when a span begins, and so many may begin in it. Of windows that last longer when somebody is
// denied more is not known: what was granted after the time of one may have been granted in it still, if only a request for
// more than what was left had been denied.
func touchedMost(p ration.FixedWindow, a, b int64) int64 {
	return mulDiv(p.Limit, (b-a)/windowMicros(p)+2, 1)
}

// windowExcess follows the windows one after the other, where none lasts longer than Window, counting in each what was
// certainly granted in it.
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
