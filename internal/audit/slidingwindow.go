package audit

import (
	"cmp"
	"math"
	"slices"

	"github.com/go-ration/ration"
)

// slidingMost is the most that a SlidingWindow grants in the microseconds from a to b: Limit where they are in one window of
// the grid, and else Limit for each Window from the start of the window of a up to b, counting parts.
//
// Let x be what the windows from that of a to that of b grant, x[0] to x[n], and e the time from the start of the last one to
// b. Each of them is at most Limit. At the last grant in the last one, at e or before it, the estimate was at most Limit, and
// the weight of x[n-1] in it at least 1 - e/Window. Hence
//
//	x[n-1]*(1 - e/Window) + x[n] <= Limit
//	x[n-1] + x[n] <= Limit + x[n-1]*e/Window <= Limit*(1 + e/Window)
//	x[0] + … + x[n] <= Limit*(n + e/Window)
//
// and n*Window + e is the time from the start of the window of a up to b. Whatever the place of a on the grid, that is less
// than a Window more than b-a: in any span of time t at most Limit*(1 + t/Window) units are granted.
func slidingMost(p ration.SlidingWindow, a, b int64) int64 {
	window := p.Window.Microseconds()
	return max(p.Limit, mulDiv(p.Limit, b-a+a%window, window))
}

// estimateExcess is by how much the plan's own estimate certainly was above Limit, where it was so most.
//
// Take the end b of an admission's span, the window of the grid that b is in, with the time e from its start to b, and all
// admissions whose spans end at b or before and begin in this window or in the one before it. When the last of these grants had
// been made, at b or before, all of them were in the estimate: those granted in this window in full, and those granted in the
// one before with a weight of 1 - e/Window or more. (If even the last one was made in the window before, all were granted in
// that, and were in its estimate in full.) So the estimate came to no less than
//
//   - the units of those whose spans begin in this window, plus
//   - the units of the others, in whichever of the two windows they were granted, times 1 - e/Window
//
// and no part of that depends on a moment that is not known. What may have been granted earlier than in the window before, or
// later than b, counts for nothing. Each unit less lowers the estimate by one at most, so that so many were too many.
//
// That at most Limit is granted in one window is part of it: the first term alone is what was certainly granted in it.
func estimateExcess(p ration.SlidingWindow, admissions []Admission) int64 {
	byAfter := slices.Clone(admissions)
	slices.SortFunc(byAfter, func(x, y Admission) int { return cmp.Compare(x.After, y.After) })
	window := p.Window.Microseconds()
	var worst int64
	open := int64(math.MinInt64) // the window's index
	var inside, previous int64   // units of the first and of the second term
	for _, a := range byAfter {
		if index := a.After / window; index != open {
			previous = 0
			if index == open+1 {
				previous = inside
			}
			open, inside = index, 0
		}
		switch a.Before / window {
		case open:
			inside += a.Units
		case open - 1:
			previous += a.Units
		}
		weight := previous - mulDiv(previous, a.After%window, window) // rounded up
		worst = max(worst, inside+weight-p.Limit)
	}
	return worst
}
