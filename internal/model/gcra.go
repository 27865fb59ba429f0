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
	spent, repaired := new(big.Rat), false
	if full := g.full[g.name()]; full != nil {
		spent.Sub(full, big.NewRat(now, 1))
		if spent.Sign() < 0 {
			spent.SetInt64(0)
		}
		if spent.Cmp(capacity) > 0 {
			spent.Set(capacity)
			repaired = true
		}
	}
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
	answer := Answer{Granted: granted, Remaining: floor(new(big.Rat).Mul(left, rate)), ResetAfter: ceil(spent)}
	if missing := new(big.Rat).Sub(worth(cost), left); missing.Sign() > 0 {
		answer.RetryAfter = ceil(missing)
	}
	return answer
}
