package ration

import (
	"fmt"
	"math/bits"
	"strconv"
	"time"
)

// GCRA admits what a [TokenBucket] of the same numbers admits, by the generic cell rate algorithm, and costs the least time
// and memory of all plans. What it keeps is when everything spent so far will have been earned again.
//
// Guarantee: in any span of time t at most Burst + Rate·t units are granted. The arithmetic is exact, and where it cannot be
// the rate is rounded down, as for [TokenBucket].
//
// A clock that steps back counts as units spent, at most one Burst: nothing is granted that a TokenBucket would not grant, and
// the key is as good as new within Burst/Rate of the new clock at the latest. Moments come round again after 2^52 µs (142
// years), divided by the units of the Rate in lowest terms per microsecond: 75 minutes of 999983/s, where few rates have such
// units. Where that is more than a day, a step back by it, or by up to Burst/Rate less, is not seen. Nor is it seen that a key
// is old, if its expiry was taken away by hand and it is more than a quarter of that old: it then counts as spent, once.
//
// A changed plan starts afresh, with a full Burst, for what is kept has a meaning only under its numbers. Two plans used side by
// side have a count each, and a plan that comes back finds its own. Where the level is to survive a change, use [TokenBucket].
//
// The zero value is refused. Stored: an integer per key and plan, 90 to 120 bytes in Redis besides a long key, which expires when
// everything is earned again.
type GCRA struct {
	// Rate is what is earned, continuously: at least 1 unit per 2^50 µs (35 years).
	Rate Rate
	// Burst is the most units that can be taken at once: at least 1, and earned within 2^50 µs divided by the units of
	// the Rate, in lowest terms per microsecond.
	Burst int64
}

const gcraName = "gcra"

// String is the plan as ParsePlan reads it: "gcra 100/s burst 20".
func (p GCRA) String() string { return fmt.Sprintf("%s %v burst %d", gcraName, p.Rate, p.Burst) }

func parseGCRA(p *planParser) Plan {
	rate, burst := p.rateAndBurst()
	return GCRA{Rate: rate, Burst: burst}
}

func (p GCRA) prepare() (*preparedPlan, error) {
	refuse := func(field, format string, args ...any) (*preparedPlan, error) {
		return nil, &PlanError{Plan: gcraName, Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	rate, wrong := p.Rate.exact()
	if wrong != "" {
		return refuse("Rate", "%s", wrong)
	}
	modulus := exactBound - exactBound%rate.num
	greatest := modulus / 4 / rate.den
	switch {
	case greatest < 1:
		return refuse("Rate", "is %v: must be at least 1 unit per %v", p.Rate, formatSpan(exactBound/4*time.Microsecond))
	case p.Burst < 1:
		return refuse("Burst", "is %d: must be at least 1", p.Burst)
	case p.Burst > greatest:
		return refuse("Burst", "is %d: must be at most %d with a rate of %v", p.Burst, greatest, p.Rate)
	}
	algorithm := gcraArithmetic{burst: p.Burst, capacity: p.Burst * rate.den, rate: rate}
	args := []any{
		strconv.FormatInt(algorithm.capacity, 10),
		strconv.FormatInt(rate.num, 10),
	}
	inKey := func(n int64) string { return "-" + strconv.FormatInt(n, 36) }
	return &preparedPlan{
		plan:       p,
		text:       p.String(),
		kind:       "gc1",
		numbers:    inKey(rate.num) + inKey(rate.den) + inKey(p.Burst),
		limit:      p.Burst,
		unit:       rate.den,
		take:       &gcraTake,
		many:       &gcraMany,
		one:        &gcraOne,
		peek:       &gcraPeek,
		refund:     &gcraRefund,
		args:       args,
		argsUpTo:   args,
		argsRefund: args,
		algorithm:  algorithm,
	}, nil
}

// gcraArithmetic is the plan as it is counted: in units of 1/num microseconds, of which one token is den.
type gcraArithmetic struct {
	burst    int64
	capacity int64 // burst * den
	rate     perMicro
}

// waitFor is how long it takes to earn `units` units of 1/num microseconds, rounded up to a microsecond.
func (a gcraArithmetic) waitFor(units int64) time.Duration {
	return micros((units + a.rate.num - 1) / a.rate.num)
}

func (a gcraArithmetic) plausible(r reply) bool { return 0 <= r[1] && r[1] <= a.capacity }

func (a gcraArithmetic) outcome(r reply, cost int64) outcome {
	spent := r[1]
	return outcome{
		remaining:  (a.capacity - spent) / a.rate.den,
		retryAfter: a.waitFor(max(spent+cost*a.rate.den-a.capacity, 0)),
		resetAfter: a.waitFor(spent),
	}
}

func (a gcraArithmetic) before(r reply, units int64) reply {
	r[1] -= units * a.rate.den
	return r
}

func (a gcraArithmetic) taken(r reply, units int64) []any {
	spent, now := r[1], r[2]
	return []any{units * a.rate.den, spent, now}
}

func (a gcraArithmetic) newTwin() twin { return &gcraTwin{gcraArithmetic: a} }

func (a gcraArithmetic) twinFrom(free int64, _ reply, atMicros int64) twin {
	t := &gcraTwin{gcraArithmetic: a}
	if free < a.burst {
		t.stored, t.spent, t.atMicros = true, a.capacity-free*a.rate.den, atMicros
	}
	return t
}

// gcraTwin is what one key has spent. It counts as the script does.
type gcraTwin struct {
	gcraArithmetic
	stored   bool  // false: nothing was spent yet
	spent    int64 // as of atMicros
	atMicros int64
}

// spentAt is what is spent at a moment, and whether it had to be mended, for the clock stepped back.
func (t *gcraTwin) spentAt(nowMicros int64) (spent int64, mend bool) {
	elapsed := nowMicros - t.atMicros
	switch hi, units := bits.Mul64(uint64(max(elapsed, -elapsed)), uint64(t.rate.num)); {
	case !t.stored:
		return 0, false
	case elapsed >= 0 && (hi > 0 || units >= uint64(t.spent)):
		return 0, false
	case elapsed >= 0:
		return t.spent - int64(units), false
	case hi > 0 || units > uint64(t.capacity-t.spent):
		return t.capacity, true
	default:
		return t.spent + int64(units), false
	}
}

func (t *gcraTwin) takeAt(nowMicros, cost, count int64, _ bool) reply {
	spent, mend := t.spentAt(nowMicros)
	granted := fit(t.capacity-spent, cost*t.rate.den, count)
	spent += granted * cost * t.rate.den
	if granted*cost > 0 || mend {
		t.stored, t.spent, t.atMicros = true, spent, nowMicros
	}
	return reply{granted, spent, nowMicros}
}

func (t *gcraTwin) peekAt(nowMicros int64) reply {
	spent, _ := t.spentAt(nowMicros)
	return reply{0, spent}
}

func (t *gcraTwin) refundAt(nowMicros int64, r reply, units int64) int64 {
	spent, mend := t.spentAt(nowMicros)
	// What the request spent, less what was earned since, is what can still be given back of it.
	left, elapsed := min(r[1], units*t.rate.den), nowMicros-r[2]
	back := int64(0)
	if hi, earned := bits.Mul64(uint64(max(elapsed, 0)), uint64(t.rate.num)); elapsed >= 0 && hi == 0 && earned < uint64(left) {
		back = min(spent, left-int64(earned))
	}
	if back > 0 || mend {
		t.spent, t.atMicros = spent-back, nowMicros
	}
	return back
}
