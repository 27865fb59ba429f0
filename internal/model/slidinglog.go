package model

import (
	"slices"

	"github.com/go-ration/ration"
)

// slidingLog is a SlidingLog: each unit by itself.
type slidingLog struct {
	plan    ration.SlidingLog
	granted []loggedUnit // in order
	// refunded are the moments of the grants that were given back, which still are in the log.
	refunded []int64
	grants   int
}

// loggedUnit is a unit, when it was granted, in microseconds, and by which grant; 0: it was moved since.
type loggedUnit struct {
	at    int64
	grant int
}

func (l *slidingLog) Change(plan ration.Plan) { l.plan = plan.(ration.SlidingLog) }

func (l *slidingLog) Forget() { l.granted, l.refunded = nil, nil }

// isOut says whether what was granted at a moment is a window old.
func (l *slidingLog) isOut(at, now int64) bool { return at <= now-l.plan.Window.Microseconds() }

func (l *slidingLog) total(now int64) int64 {
	n := int64(0)
	for _, unit := range l.granted {
		if !l.isOut(unit.at, now) {
			n++
		}
	}
	return n
}

// stepBack moves what is ahead of the clock to now; everything, where grants were given back.
func (l *slidingLog) stepBack(now int64) {
	ahead := func(at int64) bool { return at > now }
	isAhead := slices.ContainsFunc(l.refunded, ahead) ||
		slices.ContainsFunc(l.granted, func(u loggedUnit) bool { return ahead(u.at) })
	if !isAhead {
		return
	}
	all := slices.ContainsFunc(l.refunded, func(at int64) bool { return !l.isOut(at, now) })
	for i, unit := range l.granted {
		if ahead(unit.at) || all && !l.isOut(unit.at, now) {
			l.granted[i] = loggedUnit{at: now}
		}
	}
	if all {
		l.granted = slices.DeleteFunc(l.granted, func(u loggedUnit) bool { return l.isOut(u.at, now) })
		l.refunded = nil
	}
}

func (l *slidingLog) Take(now int64, ask Ask) Answer {
	cost, count := ask.Cost, ask.Count
	l.stepBack(now)
	granted := int64(0)
	l.grants++
	for granted < count && (cost == 0 || l.total(now)+cost <= l.plan.Limit) {
		granted++
		if cost > 0 { // a grant forgets what is out
			l.granted = slices.DeleteFunc(l.granted, func(u loggedUnit) bool { return l.isOut(u.at, now) })
			l.refunded = slices.DeleteFunc(l.refunded, func(at int64) bool { return l.isOut(at, now) })
		}
		for range cost {
			l.granted = append(l.granted, loggedUnit{now, l.grants})
		}
	}
	window := l.plan.Window.Microseconds()
	answer := Answer{
		Granted:    granted,
		Remaining:  max(l.plan.Limit-l.total(now), 0),
		RetryAfter: leastWait(window, func(wait int64) bool { return l.total(now+wait)+cost <= l.plan.Limit }),
		ResetAfter: leastWait(window, func(wait int64) bool { return l.total(now+wait) == 0 }),
	}
	if granted*cost > 0 {
		answer.Grant = l.grants
	}
	return answer
}

func (l *slidingLog) Refund(_ int64, grant Grant) {
	isOf := func(u loggedUnit) bool { return u.grant == grant.(int) }
	if first := slices.IndexFunc(l.granted, isOf); first >= 0 {
		l.refunded = append(l.refunded, l.granted[first].at)
		l.granted = slices.DeleteFunc(l.granted, isOf)
	}
}
