package model

import (
	"math/big"

	"github.com/go-ration/ration"
)

// slidingWindow is a SlidingWindow: what was granted in each window.
type slidingWindow struct {
	plan    ration.SlidingWindow
	counted ration.SlidingWindow // the plan whose windows are counted
	granted map[int64]int64      // by the index of the window
	open    int64                // the window that was open when they were counted last
}

func (w *slidingWindow) Change(plan ration.Plan) { w.plan = plan.(ration.SlidingWindow) }

func (w *slidingWindow) Forget() { *w = slidingWindow{plan: w.plan, counted: w.plan} }

// estimate is what is counted at a moment.
func (w *slidingWindow) estimate(now int64) *big.Rat {
	length := w.counted.Window.Microseconds()
	index, elapsed := now/length, now%length
	weight := new(big.Rat).Sub(big.NewRat(1, 1), big.NewRat(elapsed, length))
	weight.Mul(weight, big.NewRat(w.granted[index-1], 1))
	return weight.Add(weight, big.NewRat(w.granted[index], 1))
}

// settle brings what was granted into the windows that the clock and the plan now have.
func (w *slidingWindow) settle(now int64) {
	index := now / w.counted.Window.Microseconds()
	if w.open > index { // the clock stepped back
		all := min(w.granted[w.open]+w.granted[w.open-1], w.plan.Limit)
		w.granted = map[int64]int64{index: max(w.granted[w.open], all)}
		w.open = index
	}
	if w.counted.Window != w.plan.Window {
		// The estimate stays, what decays of it decaying.
		current := w.granted[now/w.counted.Window.Microseconds()]
		weight := ceil(new(big.Rat).Sub(w.estimate(now), big.NewRat(current, 1)))
		w.counted = w.plan
		length := w.plan.Window.Microseconds()
		index := now / length
		previous := new(big.Rat).Mul(big.NewRat(weight, 1), big.NewRat(length, length-now%length))
		w.granted, w.open = map[int64]int64{index: current}, index
		if previous.Cmp(big.NewRat(1<<52, 1)) <= 0 {
			w.granted[index-1] = floor(previous)
		} else {
			w.granted[index] += weight
		}
	}
}

func (w *slidingWindow) Take(now int64, ask Ask) Answer {
	cost, count := ask.Cost, ask.Count
	w.settle(now)
	length := w.plan.Window.Microseconds()
	limit := big.NewRat(w.plan.Limit, 1)
	admits := func(at int64) bool {
		with := new(big.Rat).Add(w.estimate(at), big.NewRat(cost, 1))
		return with.Cmp(limit) <= 0
	}
	granted := count
	if room := new(big.Rat).Sub(limit, w.estimate(now)); cost > 0 {
		granted = min(count, max(floor(room.Quo(room, big.NewRat(cost, 1))), 0))
	}
	if granted*cost > 0 {
		if w.granted == nil {
			w.granted = make(map[int64]int64)
		}
		w.open = now / length
		w.granted[w.open] += granted * cost
	}
	answer := Answer{Granted: granted, Remaining: max(floor(new(big.Rat).Sub(limit, w.estimate(now))), 0)}
	if units := granted * cost; units > 0 {
		answer.Grant = slidingGrant{w.plan.Window.Microseconds(), w.open, units}
	}
	answer.ResetAfter = leastWait(2*length, func(wait int64) bool { return w.estimate(now+wait).Sign() == 0 })
	answer.RetryAfter = leastWait(2*length, func(wait int64) bool { return admits(now + wait) })
	return answer
}

// slidingGrant is a grant of a sliding window, by the window that it was counted in.
type slidingGrant struct{ length, index, units int64 }

func (w *slidingWindow) Refund(_ int64, grant Grant) {
	g := grant.(slidingGrant)
	if g.length != w.counted.Window.Microseconds() || g.index != w.open && g.index != w.open-1 {
		return
	}
	w.granted[g.index] -= min(g.units, w.granted[g.index])
}
