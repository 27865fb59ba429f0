package model

import (
	"fmt"
	"math/big"

	"github.com/go-ration/ration"
)

// gcra is a GCRA: of each plan, the moment when everything will be earned again, in microseconds. Plans that say the same in
// other words, as 1/d and 7/7d, are one.
type gcra struct {
	plan ration.GCRA
	full map[string]*big.Rat
}

func (g *gcra) name() string { return fmt.Sprint(perMicro(g.plan.Rate), g.plan.Burst) }

func (g *gcra) Change(plan ration.Plan) { g.plan = plan.(ration.GCRA) }

func (g *gcra) Forget() { delete(g.full, g.name()) }

func (g *gcra) Take(now int64, ask Ask) Answer {
	cost, count := ask.Cost, ask.Count
	rate := perMicro(g.plan.Rate)
	capacity := new(big.Rat).Quo(big.NewRat(g.plan.Burst, 1), rate) // microseconds
	spent, repaired := g.spentAt(now, g.name(), capacity)
	worth := func(tokens int64) *big.Rat { return new(big.Rat).Quo(big.NewRat(tokens, 1), rate) }
	granted := count
	if cost > 0 {
		granted = min(count, floor(new(big.Rat).Quo(new(big.Rat).Sub(capacity, spent), worth(cost))))
	}
	spent.Add(spent, worth(granted*cost))
	if granted*cost > 0 || repaired {
		g.full[g.name()] = new(big.Rat).Add(big.NewRat(now, 1), spent)
	}
	left := new(big.Rat).Sub(capacity, spent)
	var grant Grant
	if granted*cost > 0 {
		grant = gcraGrant{g.name(), capacity, worth(granted * cost), now}
	}
	answer := Answer{Grant: grant, Granted: granted, Remaining: floor(new(big.Rat).Mul(left, rate)), ResetAfter: ceil(spent)}
	if missing := new(big.Rat).Sub(worth(cost), left); missing.Sign() > 0 {
		answer.RetryAfter = ceil(missing)
	}
	return answer
}

// spentAt is what of a plan is spent at a moment, in microseconds, and whether it was more than it can hold.
func (g *gcra) spentAt(now int64, plan string, capacity *big.Rat) (spent *big.Rat, repaired bool) {
	spent = new(big.Rat)
	full := g.full[plan]
	if full == nil {
		return spent, false
	}
	spent.Sub(full, big.NewRat(now, 1))
	switch {
	case spent.Sign() < 0:
		return spent.SetInt64(0), false
	case spent.Cmp(capacity) > 0:
		return spent.Set(capacity), true
	default:
		return spent, false
	}
}

// gcraGrant is a grant of a GCRA, and what it spent; times are in microseconds.
type gcraGrant struct {
	plan            string
	capacity, worth *big.Rat
	at              int64
}

func (g *gcra) Refund(now int64, grant Grant) {
	given := grant.(gcraGrant)
	spent, repaired := g.spentAt(now, given.plan, given.capacity)
	back := new(big.Rat)
	if now >= given.at {
		left := new(big.Rat).Sub(given.worth, big.NewRat(now-given.at, 1))
		if left.Cmp(spent) > 0 {
			left.Set(spent)
		}
		if left.Sign() > 0 {
			back = left
		}
	}
	if back.Sign() > 0 || repaired {
		g.full[given.plan] = spent.Sub(spent, back).Add(spent, big.NewRat(now, 1))
	}
}
