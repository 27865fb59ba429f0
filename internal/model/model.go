// Package model says what plans must answer, in exact rational arithmetic and in the plainest form, for tests. It shares no
// code with the scripts or the twins, and counts in other terms than they do.
package model

import (
	"math/big"

	"github.com/go-ration/ration"
)

// Answer is what a plan says of a request. Times are in microseconds.
type Answer struct {
	Granted    int64 // requests
	Remaining  int64
	RetryAfter int64 // of a request that was denied
	ResetAfter int64
}

// Model is the state of one key.
type Model interface {
	// Take decides `count` requests of `cost` units each at a moment of the server's clock, in microseconds.
	Take(now, cost, count int64) Answer
	// Change puts another plan of the same kind in the place of the present one.
	Change(plan ration.Plan)
}

// New makes the model of a fresh key.
func New(plan ration.Plan) Model {
	switch p := plan.(type) {
	case ration.TokenBucket:
		return &bucket{plan: p}
	case ration.FixedWindow:
		return &window{plan: p}
	default:
		panic("model: unknown plan")
	}
}

// bucket is a TokenBucket, its level one number.
type bucket struct {
	plan   ration.TokenBucket
	filled ration.Rate // the rate since at; meaningful once stored
	level  *big.Rat    // tokens, as of `at`
	at     int64
	stored bool
}

func (b *bucket) Change(plan ration.Plan) { b.plan = plan.(ration.TokenBucket) }

// perMicro is a rate in tokens per microsecond.
func perMicro(r ration.Rate) *big.Rat {
	return big.NewRat(r.Units*1000, int64(r.Per))
}

func (b *bucket) Take(now, cost, count int64) Answer {
	burst := new(big.Rat).SetInt64(b.plan.Burst)
	rate := perMicro(b.plan.Rate)
	level, at := new(big.Rat).Set(burst), now
	changed := false
	if b.stored {
		level = b.levelAt(now)
		changed = perMicro(b.filled).Cmp(rate) != 0
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
		b.stored, b.at, b.filled, b.level = true, at, b.plan.Rate, new(big.Rat).Set(level)
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
		earned := perMicro(b.filled)
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

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func ceil(r *big.Rat) int64 {
	negative := new(big.Rat).Neg(r)
	return -floor(negative)
}

// window is a FixedWindow, kept as the list of its grants.
type window struct {
	plan   ration.FixedWindow
	opened bool
	end    int64   // of the open window, in milliseconds
	grants []int64 // in the open window
}

func (w *window) Change(plan ration.Plan) { w.plan = plan.(ration.FixedWindow) }

// endAt is the latest end that a window open at a moment may have.
func (w *window) endAt(now int64) int64 {
	length := w.plan.Window.Milliseconds()
	if w.plan.Aligned {
		return (now/length + 1) * length
	}
	return now + length
}

func (w *window) Take(nowMicros, cost, count int64) Answer {
	now := nowMicros / 1000
	if w.opened && w.end <= now {
		w.opened, w.grants = false, nil
	}
	if w.opened {
		w.end = min(w.end, w.endAt(now))
	}
	used := int64(0)
	for _, n := range w.grants {
		used += n
	}
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
	if answer.Granted < count && w.plan.RestartOnDeny && w.opened {
		w.end = w.endAt(now)
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
