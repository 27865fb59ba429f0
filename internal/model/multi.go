package model

import "github.com/go-ration/ration"

// multi is a MultiPlan: the models of its plans, of which none is asked for more than all have.
type multi struct{ each []Model }

func newMulti(plan ration.MultiPlan) *multi {
	m := &multi{}
	for _, one := range plan {
		m.each = append(m.each, New(one.Plan))
	}
	return m
}

func (m *multi) Change(plan ration.Plan) {
	for i, one := range plan.(ration.MultiPlan) {
		m.each[i].Change(one.Plan)
	}
}

func (m *multi) Forget() {
	for _, one := range m.each {
		one.Forget()
	}
}

func (m *multi) Take(now int64, ask Ask) Answer {
	all := Answer{Granted: ask.Count}
	for _, one := range m.each {
		if left := one.Take(now, Ask{Cost: ask.Cost}).Remaining; ask.Cost > 0 {
			all.Granted = min(all.Granted, left/ask.Cost)
		}
	}
	var grants []Grant
	for i, one := range m.each {
		answer := one.Take(now, Ask{Cost: ask.Cost, Count: all.Granted})
		if all.Granted > 0 || ask.Cost <= answer.Remaining {
			answer.RetryAfter = 0
		}
		if i == 0 {
			all.Remaining = answer.Remaining
		}
		all.Remaining = min(all.Remaining, answer.Remaining)
		all.RetryAfter = max(all.RetryAfter, answer.RetryAfter)
		all.ResetAfter = max(all.ResetAfter, answer.ResetAfter)
		all.Each = append(all.Each, answer)
		grants = append(grants, answer.Grant)
	}
	all.Grant = grants
	return all
}

func (m *multi) Refund(now int64, grant Grant) {
	for i, one := range m.each {
		one.Refund(now, grant.([]Grant)[i])
	}
}
