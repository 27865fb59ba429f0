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
	// refunded is what was given back since changed, rounded up.
	refunded int64
	// changed is when the plan was changed: no request taken by then is given back any more.
	changed int64
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
		if changed {
			b.refunded, b.changed = 0, max(b.at, now-1)
		}
	}
	granted := count
	if cost > 0 {
		granted = min(count, floor(new(big.Rat).Quo(level, big.NewRat(cost, 1))))
	}
	level.Sub(level, big.NewRat(granted*cost, 1))

	at, pulled := pulledBack(at, now, level, rate)
	if granted*cost > 0 || pulled || changed {
		b.stored, b.at, b.filled, b.level = true, at, b.plan, new(big.Rat).Set(level)
	}
	answer := Answer{Granted: granted, Remaining: floor(level)}
	if granted*cost > 0 {
		answer.Grant = bucketGrant{b.plan, new(big.Rat).Set(level), at, granted * cost, b.refunded}
	}
	if missing := new(big.Rat).Sub(burst, level); missing.Sign() > 0 {
		answer.ResetAfter = at - now + ceil(missing.Quo(missing, rate))
	}
	if missing := new(big.Rat).Sub(big.NewRat(cost, 1), level); missing.Sign() > 0 {
		answer.RetryAfter = at - now + ceil(missing.Quo(missing, rate))
	}
	return answer
}

// pulledBack: full again within burst/rate, so the moment is at most what the level is worth ahead of the clock.
func pulledBack(at, now int64, level, rate *big.Rat) (back int64, pulled bool) {
	if worth := floor(new(big.Rat).Quo(level, rate)); at-now > worth {
		return now + worth, true
	}
	return at, false
}

// bucketGrant is a grant of a bucket, and the level that it left.
type bucketGrant struct {
	plan  ration.TokenBucket
	level *big.Rat
	at    int64
	units int64
	then  int64 // what had been given back
}

func (b *bucket) Refund(now int64, grant Grant) {
	g := grant.(bucketGrant)
	burst, rate := big.NewRat(g.plan.Burst, 1), perMicro(g.plan.Rate)
	if b.changed >= g.at || b.refunded < g.then {
		return
	}
	if !b.stored || b.filled.Burst != g.plan.Burst || perMicro(b.filled.Rate).Cmp(rate) != 0 {
		return
	}
	// What the bucket would lack, had nobody taken anything after the grant.
	left := new(big.Rat).Mul(rate, big.NewRat(max(now-g.at, 0), 1))
	left.Add(left, g.level)
	left.Add(left, big.NewRat(b.refunded-g.then, 1)) // by others, who may have taken before
	lacking := new(big.Rat).Sub(burst, left)
	if lacking.Sign() <= 0 {
		return
	}
	back := big.NewRat(g.units, 1)
	if back.Cmp(lacking) > 0 {
		back = lacking
	}
	if b.refunded += ceil(back); b.refunded >= 1<<52 {
		b.refunded, b.changed = 0, max(b.at, now)
	}
	level := b.levelAt(now)
	if level.Cmp(burst) > 0 {
		level.Set(burst)
	}
	if level.Add(level, back).Cmp(burst) > 0 {
		level.Set(burst)
	}
	b.level = level
	b.at, _ = pulledBack(max(b.at, now), now, level, rate)
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
