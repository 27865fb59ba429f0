package model

import (
	"math/big"

	"github.com/go-ration/ration"
)

// bucket is a TokenBucket, its level one number.
type bucket struct {
	plan   ration.TokenBucket
	filled ration.TokenBucket // the plan since at; meaningful once stored
	level  *big.Rat           // tokens, as of `at`
	at     int64
	stored bool
}

func (b *bucket) Change(plan ration.Plan) { b.plan = plan.(ration.TokenBucket) }

func (b *bucket) Forget() { *b = bucket{plan: b.plan} }

func (b *bucket) Take(now int64, ask Ask) Answer {
	cost, count := ask.Cost, ask.Count
	burst := new(big.Rat).SetInt64(b.plan.Burst)
	rate := perMicro(b.plan.Rate)
	level, at := new(big.Rat).Set(burst), now
	changed := false
	if b.stored {
		level = b.levelAt(now)
		changed = perMicro(b.filled.Rate).Cmp(rate) != 0 || b.filled.Burst != b.plan.Burst
		if changed {
			level = floorTo(level, rate)
		}
		if level.Cmp(burst) > 0 {
			level.Set(burst)
		}
		at = max(b.at, now)
	}
	granted := count
	if cost > 0 {
		granted = min(count, floor(new(big.Rat).Quo(level, big.NewRat(cost, 1))))
	}
	level.Sub(level, big.NewRat(granted*cost, 1))

	// Full again within burst/rate: the moment is at most what the level is worth ahead of the clock.
	pulled := false
	if worth := floor(new(big.Rat).Quo(level, rate)); at-now > worth {
		at, pulled = now+worth, true
	}
	if granted*cost > 0 || pulled || changed {
		b.stored, b.at, b.filled, b.level = true, at, b.plan, new(big.Rat).Set(level)
	}
	answer := Answer{Granted: granted, Remaining: floor(level)}
	if missing := new(big.Rat).Sub(burst, level); missing.Sign() > 0 {
		answer.ResetAfter = at - now + ceil(missing.Quo(missing, rate))
	}
	if missing := new(big.Rat).Sub(big.NewRat(cost, 1), level); missing.Sign() > 0 {
		answer.RetryAfter = at - now + ceil(missing.Quo(missing, rate))
	}
	return answer
}

func (b *bucket) levelAt(now int64) *big.Rat {
	level := new(big.Rat).Set(b.level)
	if now > b.at {
		earned := perMicro(b.filled.Rate)
		level.Add(level, earned.Mul(earned, big.NewRat(now-b.at, 1)))
	}
	return level
}

// floorTo rounds a level down to the parts of a token that are counted at a rate: its denominator.
func floorTo(level, rate *big.Rat) *big.Rat {
	parts := new(big.Rat).SetInt(rate.Denom())
	scaled := new(big.Rat).Mul(level, parts)
	whole := new(big.Rat).SetInt(new(big.Int).Div(scaled.Num(), scaled.Denom()))
	return whole.Quo(whole, parts)
}
