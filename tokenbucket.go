package ration

import (
	"fmt"
	"math/bits"
	"strconv"
)

// TokenBucket admits as long as there are tokens: the bucket holds at most Burst, starts full, and is refilled at Rate.
//
// Guarantee: in any span of time t at most Burst + Rate·t units are granted. The arithmetic is exact, so no refill is lost
// or gained to rounding, however often the bucket is asked; where the numbers of a Rate are too great for that (its units
// times its microseconds, in lowest terms, above 2^52), the rate is rounded down by less than one part in a million.
//
// A clock that steps back refills nothing, and no span of time is refilled twice, except that the bucket is full again
// within Burst/Rate of the new clock at the latest.
//
// A changed plan keeps the level: the time until the change is credited at the old rate, up to the new Burst. The change
// counts from the first request that is decided under the new plan, denied or not. A bucket that was full by then, and
// forgotten, is full under the new plan.
//
// The zero value is refused. Stored: a hash per key, which expires when the bucket is full again.
type TokenBucket struct {
	// Rate is what the bucket is refilled with, continuously: at least 1 unit per 2^51 µs (71 years).
	Rate Rate
	// Burst is the most tokens the bucket holds: at least 1, and filled within 2^52 µs (142 years).
	Burst int64
}

const tokenBucketName = "token-bucket"

// String is the plan as ParsePlan reads it: "token-bucket 100/s burst 20".
func (p TokenBucket) String() string {
	return fmt.Sprintf("%s %v burst %d", tokenBucketName, p.Rate, p.Burst)
}

func parseTokenBucket(p *planParser) Plan {
	rate, burst := p.rateAndBurst()
	return TokenBucket{Rate: rate, Burst: burst}
}

func (p TokenBucket) prepare() (*preparedPlan, error) {
	refuse := func(field, format string, args ...any) (*preparedPlan, error) {
		return nil, &PlanError{Plan: tokenBucketName, Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	rate, wrong := p.Rate.exact()
	if wrong != "" {
		return refuse("Rate", "%s", wrong)
	}
	greatest := int64(exactBound)
	if rate.num < rate.den {
		greatest = mulDiv(exactBound, rate.num, rate.den)
	}
	switch {
	case p.Burst < 1:
		return refuse("Burst", "is %d: must be at least 1", p.Burst)
	case p.Burst > greatest:
		return refuse("Burst", "is %d: must be at most %d with a rate of %v", p.Burst, greatest, p.Rate)
	}
	algorithm := tokenBucketArithmetic{burst: p.Burst, rate: rate}
	args := []any{
		strconv.FormatInt(p.Burst, 10),
		strconv.FormatInt(rate.num, 10),
		strconv.FormatInt(rate.den, 10),
		fmt.Sprintf("%d %d %d", p.Burst, rate.num, rate.den),
	}
	return &preparedPlan{
		plan:       p,
		text:       p.String(),
		kind:       "tb1",
		limit:      p.Burst,
		take:       &tokenBucketTake,
		many:       &tokenBucketMany,
		peek:       &tokenBucketPeek,
		refund:     &tokenBucketRefund,
		args:       args,
		argsUpTo:   args,
		argsRefund: args,
		algorithm:  algorithm,
	}, nil
}

// tokenBucketArithmetic is the plan as it is counted.
type tokenBucketArithmetic struct {
	burst int64
	rate  perMicro
}

// microsFor is how long it takes to earn `tokens` tokens less part/den of one, in microseconds, rounded up.
func (a tokenBucketArithmetic) microsFor(tokens, part int64) int64 {
	hi, lo := bits.Mul64(uint64(tokens), uint64(a.rate.den))
	lo, borrow := bits.Sub64(lo, uint64(part), 0)
	hi -= borrow
	quotient, rest := bits.Div64(hi, lo, uint64(a.rate.num))
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

func (a tokenBucketArithmetic) plausible(r reply) bool {
	tokens, part, ahead := r[1], r[2], r[3]
	return 0 <= tokens && tokens <= a.burst && 0 <= part && part < a.rate.den && 0 <= ahead && ahead <= exactBound &&
		(tokens < a.burst || part == 0)
}

func (a tokenBucketArithmetic) outcome(r reply, cost int64) outcome {
	tokens, part, ahead := r[1], r[2], r[3]
	o := outcome{remaining: tokens}
	if cost > tokens {
		o.retryAfter = micros(ahead + a.microsFor(cost-tokens, part))
	}
	if tokens < a.burst {
		o.resetAfter = micros(ahead + a.microsFor(a.burst-tokens, part))
	}
	return o
}

func (a tokenBucketArithmetic) before(r reply, units int64) reply {
	r[1] += units
	return r
}

func (a tokenBucketArithmetic) taken(r reply, units int64) []any {
	tokens, part, ahead, now, refunded := r[1], r[2], r[3], r[4], r[5]
	return []any{units, tokens, part, now + ahead, refunded}
}

func (a tokenBucketArithmetic) newTwin() twin {
	return &tokenBucketTwin{tokenBucketArithmetic: a}
}

func (a tokenBucketArithmetic) twinFrom(free int64, r reply, atMicros int64) twin {
	t := &tokenBucketTwin{tokenBucketArithmetic: a}
	if free < a.burst {
		t.stored, t.tokens, t.atMicros = true, free, atMicros+r[3]
	}
	return t
}

// tokenBucketTwin is the bucket of one key. It counts as the script does, in whole microseconds.
type tokenBucketTwin struct {
	tokenBucketArithmetic
	stored       bool // false: nothing was taken yet, the bucket is full
	tokens, part int64
	atMicros     int64 // up to when the level is counted
	refunded     int64 // since changed, rounded up
	changed      int64 // microseconds: no request taken by then is given back any more
}

// levelAt is the level at a moment, and up to when it is counted.
func (t *tokenBucketTwin) levelAt(nowMicros int64) (tokens, part, at int64) {
	if !t.stored {
		return t.burst, 0, nowMicros
	}
	tokens, part = t.refilled(t.tokens, t.part, nowMicros-t.atMicros)
	return tokens, part, max(t.atMicros, nowMicros)
}

// refilled is what a level has become after a time, in us; a clock that stepped back refills nothing.
func (a tokenBucketArithmetic) refilled(tokens, part, elapsed int64) (int64, int64) {
	if elapsed > 0 {
		turns, rest := elapsed/a.rate.den, elapsed%a.rate.den
		part += rest * a.rate.num
		if hi, lo := bits.Mul64(uint64(turns), uint64(a.rate.num)); hi > 0 || lo >= uint64(a.burst) {
			tokens = a.burst
		} else {
			tokens += int64(lo) + part/a.rate.den
		}
		part %= a.rate.den
	}
	if tokens >= a.burst {
		tokens, part = a.burst, 0
	}
	return tokens, part
}

// aheadOf is how far the moment of a level is ahead of the clock, at most what it takes to fill that level, rounded down.
func (t *tokenBucketTwin) aheadOf(nowMicros, tokens, part, at int64) int64 {
	if at <= nowMicros {
		return 0
	}
	hi, lo := bits.Mul64(uint64(tokens), uint64(t.rate.den))
	lo, carry := bits.Add64(lo, uint64(part), 0)
	worth, _ := bits.Div64(hi+carry, lo, uint64(t.rate.num))
	return min(at-nowMicros, int64(worth))
}

func (t *tokenBucketTwin) takeAt(nowMicros, cost, count int64, _ bool) reply {
	tokens, part, at := t.levelAt(nowMicros)
	granted := fit(tokens, cost, count)
	units := granted * cost
	tokens -= units
	ahead := t.aheadOf(nowMicros, tokens, part, at)
	if units > 0 || at > nowMicros+ahead {
		t.stored, t.tokens, t.part, t.atMicros = true, tokens, part, nowMicros+ahead
	}
	return reply{granted, tokens, part, ahead, nowMicros, t.refunded}
}

func (t *tokenBucketTwin) peekAt(nowMicros int64) reply {
	tokens, part, at := t.levelAt(nowMicros)
	return reply{0, tokens, part, t.aheadOf(nowMicros, tokens, part, at)}
}

func (t *tokenBucketTwin) refundAt(nowMicros int64, r reply, units int64) int64 {
	tokens, part, at := t.levelAt(nowMicros)
	// What the bucket as it was left, and as others gave back since, would lack now of being full is what of the request was
	// not earned again.
	taken, others := r[4]+r[3], t.refunded-r[5]
	left, leftPart := t.refilled(r[1], r[2], nowMicros-taken)
	lacking := t.burst - left - others
	if !t.stored || t.changed >= taken || others < 0 || lacking <= 0 {
		return 0
	}
	wholly := units < lacking || units == lacking && leftPart == 0
	units = min(units, lacking)
	tokens += units
	if t.refunded += units; t.refunded >= exactBound {
		t.refunded, t.changed = 0, max(at, nowMicros)
	}
	if !wholly {
		part -= leftPart
		if part < 0 {
			tokens, part = tokens-1, part+t.rate.den
		}
		if leftPart > 0 {
			units--
		}
	}
	if tokens >= t.burst {
		tokens, part = t.burst, 0
	}
	t.tokens, t.part, t.atMicros = tokens, part, nowMicros+t.aheadOf(nowMicros, tokens, part, at)
	return units
}

// fit is how many of count requests of cost units each fit into left units. A look, of cost 0, always fits.
func fit(left, cost, count int64) int64 {
	if cost == 0 {
		return count
	}
	return min(count, left/cost)
}

// mulDiv is a*b/c rounded down, where that is below 2^63.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	quotient, _ := bits.Div64(hi, lo, uint64(c))
	return int64(quotient)
}
