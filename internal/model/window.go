package model

import "github.com/go-ration/ration"

// window is a FixedWindow, kept as the list of its grants.
type window struct {
	plan   ration.FixedWindow
	opened bool
	end    int64   // of the open window, in milliseconds
	grants []int64 // in the open window
}

func (w *window) Change(plan ration.Plan) { w.plan = plan.(ration.FixedWindow) }

func (w *window) Forget() { *w = window{plan: w.plan} }

// endAt is the latest end that a window open at a moment may have.
func (w *window) endAt(now int64) int64 {
	length := w.plan.Window.Milliseconds()
	if w.plan.Aligned {
		return (now/length + 1) * length
	}
	return now + length
}

func (w *window) Take(nowMicros int64, ask Ask) Answer {
	cost, count := ask.Cost, ask.Count
	now := nowMicros / 1000
	if w.opened && w.end <= now {
		w.opened, w.grants = false, nil
	}
	if w.opened {
		w.end = min(w.end, w.endAt(now))
	}
	used := w.used()
	answer := Answer{Granted: count}
	for i := range count {
		if used+cost > w.plan.Limit && cost > 0 {
			answer.Granted = i
			break
		}
		used += cost
		if cost > 0 {
			if !w.opened {
				w.opened, w.end = true, w.endAt(now)
			}
			w.grants = append(w.grants, cost)
		}
	}
	if denied := answer.Granted < count && (!ask.UpTo || answer.Granted == 0); denied && w.plan.RestartOnDeny && w.opened {
		w.end = w.endAt(now)
	}
	if units := answer.Granted * cost; units > 0 {
		answer.Grant = windowGrant{w.end, units}
	}
	answer.Remaining = max(w.plan.Limit-used, 0)
	if w.opened {
		answer.ResetAfter = (w.end - now) * 1000
	}
	if answer.Granted < count || cost > answer.Remaining {
		answer.RetryAfter = answer.ResetAfter
	}
	return answer
}

func (w *window) used() int64 {
	used := int64(0)
	for _, n := range w.grants {
		used += n
	}
	return used
}

// windowGrant is a grant of a window, by its end.
type windowGrant struct{ end, units int64 }

func (w *window) Refund(now int64, grant Grant) {
	if g := grant.(windowGrant); w.opened && w.end == g.end && w.end > now/1000 {
		w.grants = append(w.grants, -min(g.units, w.used()))
	}
}
