package model

import "github.com/go-ration/ration"

// slidingLog is a SlidingLog: each unit by itself.
type slidingLog struct {
	plan    ration.SlidingLog
	granted []int64 // the moment of each unit, in microseconds, in order
}

func (l *slidingLog) Change(plan ration.Plan) { l.plan = plan.(ration.SlidingLog) }

func (l *slidingLog) Forget() { l.granted = nil }

// out is how many units are a window old at a moment.
func (l *slidingLog) out(now int64) int64 {
	n := int64(0)
	for _, at := range l.granted {
		if at <= now-l.plan.Window.Microseconds() {
			n++
		}
	}
	return n
}

func (l *slidingLog) total(now int64) int64 { return int64(len(l.granted)) - l.out(now) }

func (l *slidingLog) Take(now int64, ask Ask) Answer {
	cost, count := ask.Cost, ask.Count
	for i, at := range l.granted {
		l.granted[i] = min(at, now) // where the clock stepped back
	}
	granted := int64(0)
	for granted < count && (cost == 0 || l.total(now)+cost <= l.plan.Limit) {
		granted++
		if cost > 0 {
			l.granted = l.granted[l.out(now):] // a grant forgets what is out
		}
		for range cost {
			l.granted = append(l.granted, now)
		}
	}
	window := l.plan.Window.Microseconds()
	return Answer{
		Granted:    granted,
		Remaining:  max(l.plan.Limit-l.total(now), 0),
		RetryAfter: leastWait(window, func(wait int64) bool { return l.total(now+wait)+cost <= l.plan.Limit }),
		ResetAfter: leastWait(window, func(wait int64) bool { return l.total(now+wait) == 0 }),
	}
}
