package ration

import (
	"math/rand/v2"
	"sync/atomic"
)

// shares are what one of n processes may grant by itself of a plan: its part of the units, and of the rate. Where the units do not
// divide, each process has one more of them by chance, so that all together have as many as the plan, in expectation.
type shares struct {
	n          int64
	less, more *preparedPlan // nil where the rate would be too slow to be counted
	units      int64         // of less; where that is 0, less has one unit that is used up
	remainder  int64         // of n: how likely there is one unit more
	perWindow  bool          // drawn anew for each window, where what is counted has ended
}

// shareCache has the shares of a plan for the fleet as large as it last was.
type shareCache struct{ last atomic.Pointer[shares] }

// of are the shares of a plan among n processes.
func (c *shareCache) of(p *preparedPlan, n int64) *shares {
	if s := c.last.Load(); s != nil && s.n == n {
		return s
	}
	s := &shares{n: n, units: p.limit / n, remainder: p.limit % n}
	share := func(units int64) *preparedPlan {
		plan, ok := shardOf(p.plan, max(units, 1), n)
		if !ok {
			return nil
		}
		prepared, err := prepare(plan)
		if err != nil {
			return nil
		}
		return prepared
	}
	s.less = share(s.units)
	s.more = s.less
	if s.remainder > 0 && s.units > 0 {
		s.more = share(s.units + 1)
	}
	switch p.plan.(type) {
	case FixedWindow, SlidingWindow, SlidingLog:
		s.perWindow = true
	}
	c.last.Store(s)
	return s
}

// manyUnits is a share that is rounded down: what is left of it is little.
const manyUnits = 10

// part is the share of some units, rounded down or, where it is small, by chance.
func (s *shares) part(units int64) int64 {
	share := units / s.n
	if share < manyUnits && rand.Int64N(s.n) < units%s.n {
		share++
	}
	return share
}

// twin starts to count in this process under a share of a plan, at a moment in microseconds: from what Redis last said, or as if
// nothing had been taken. It answers nil where the share is too small to be counted.
func (s *shares) twin(known *known, now int64) (plan *preparedPlan, counts twin) {
	plan, units := s.draw()
	if known == nil {
		return plan, s.twinFrom(plan, units, reply{}, now)
	}
	o := known.plan.outcome(known.reply, 1)
	return plan, s.twinFrom(plan, min(s.part(o.remaining), units), known.reply, known.atMicros)
}

// draw draws the share: how many units it has, and the plan that it is counted under.
func (s *shares) draw() (plan *preparedPlan, units int64) {
	units = s.part(s.units*s.n + s.remainder)
	if units > s.units {
		return s.more, units
	}
	return s.less, units
}

func (s *shares) twinFrom(plan *preparedPlan, free int64, last reply, at int64) twin {
	if plan == nil {
		return nil
	}
	counts := plan.twinFrom(min(free, plan.limit), last, at)
	if log, ok := counts.(*slidingLogTwin); ok {
		log.apart = log.window / mostGrants
	}
	return counts
}

// mostGrants is about half of how many grants a log in this process tells apart; those too near to each other are out when the last of
// them is.
const mostGrants = 64
