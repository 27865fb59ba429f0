package ration

import (
	"math/bits"
	"strconv"
	"time"
)

// SlidingWindow admits what keeps an estimate of the last Window within Limit, in constant memory however large the Limit.
//
// Guarantee: estimate + cost ≤ Limit at each grant, compared unrounded. The estimate is what was granted in the open window,
// and of what was granted in the one before it the part that a window which ends now still covers; windows are those of the
// server's clock, counted from 1970 in UTC. At most Limit units are granted in one such window, and over a span of the length
// of one that begins within it up to nearly twice Limit are possible, though only where the grants of the first window all came
// late in it. [SlidingLog] has no such span. Where all is used up in every window, Limit-1 are granted in each, since what the
// one before granted has a weight to its very end.
//
// A clock that steps back into an earlier window gives nothing back: all that was counted, up to Limit, then counts in the open
// window.
//
// A changed Limit counts at once, with all that was granted before. Under a changed Window the estimate is taken over, rounded
// up, with the first request that is decided under the new plan: what was granted in the open window counts in that of the new
// length, and what the one before weighs is lost by the end of that, or of the next where it cannot be counted otherwise. So
// one key should not be decided under windows of different lengths in turn: what counts may then be forgotten early, or held
// until the windows of both have ended.
//
// The zero value is refused. Stored: a hash per key, 120 to 170 bytes in Redis besides a long key, which expires when the last
// grant has no weight any more, one to two Windows after it.
type SlidingWindow struct {
	// Limit is the units per window: 1 to 2^52.
	Limit int64
	// Window is how long a window lasts: whole milliseconds, 1 ms to 2^52 µs (142 years).
	Window time.Duration
}

const slidingWindowName = "sliding-window"

// String is the plan as ParsePlan reads it: "sliding-window 60/2h".
func (p SlidingWindow) String() string { return formatWindow(slidingWindowName, p.Limit, p.Window) }

func parseSlidingWindow(p *planParser) Plan {
	var plan SlidingWindow
	plan.Limit, plan.Window = p.quota()
	return plan
}

func (p SlidingWindow) prepare() (*preparedPlan, error) {
	if err := checkWindow(slidingWindowName, p.Limit, exactBound, p.Window); err != nil {
		return nil, err
	}
	args := []any{strconv.FormatInt(p.Limit, 10), strconv.FormatInt(p.Window.Microseconds(), 10)}
	return &preparedPlan{
		plan:       p,
		text:       p.String(),
		kind:       "sw1",
		limit:      p.Limit,
		take:       &slidingWindowTake,
		many:       &slidingWindowMany,
		peek:       &slidingWindowPeek,
		refund:     &slidingWindowRefund,
		args:       args,
		argsUpTo:   args,
		argsRefund: args[1:],
		algorithm:  slidingWindowArithmetic{limit: p.Limit, window: p.Window.Microseconds()},
	}, nil
}

// slidingWindowArithmetic is the plan as it is counted, in microseconds.
type slidingWindowArithmetic struct {
	limit, window int64
}

// weight is what the units of the previous window weigh when the open one has been open for a time, rounded up.
func (a slidingWindowArithmetic) weight(previous, elapsed int64) int64 {
	hi, lo := bits.Mul64(uint64(previous), uint64(a.window-elapsed))
	quotient, rest := bits.Div64(hi, lo, uint64(a.window))
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

func (a slidingWindowArithmetic) plausible(r reply) bool {
	remaining, previous, now := r[1], r[2], r[3]
	// What was counted under a greater limit, in both windows, comes to twice the bound.
	if remaining > a.limit || remaining < -2*exactBound || previous < 0 || previous > exactBound || now < 0 {
		return false
	}
	return a.limit-remaining >= a.weight(previous, now%a.window)
}

func (a slidingWindowArithmetic) outcome(r reply, cost int64) outcome {
	remaining, previous, elapsed := r[1], r[2], r[3]%a.window
	current := a.limit - remaining - a.weight(previous, elapsed)
	left := a.window - elapsed // of the open window
	o := outcome{remaining: max(remaining, 0)}
	switch room := a.limit - current - cost; {
	case cost <= remaining:
	case room >= 0:
		// In the open window, or where it ends, once the previous one weighs no more than room.
		o.retryAfter = micros(left - mulDiv(room, a.window, previous))
	default:
		// In the next window, or where it ends, once this one weighs no more than a cost leaves.
		o.retryAfter = micros(left + a.window - mulDiv(a.limit-cost, a.window, current))
	}
	switch {
	case current > 0:
		o.resetAfter = micros(left + a.window)
	case previous > 0:
		o.resetAfter = micros(left)
	}
	return o
}

func (a slidingWindowArithmetic) before(r reply, units int64) reply {
	r[1] += units
	return r
}

func (a slidingWindowArithmetic) taken(r reply, units int64) []any {
	now := r[3]
	return []any{units, now}
}

func (a slidingWindowArithmetic) newTwin() twin {
	return &slidingWindowTwin{slidingWindowArithmetic: a}
}

// twinFrom has what the previous window weighed still weigh, as far as it explains what is not free.
func (a slidingWindowArithmetic) twinFrom(free int64, r reply, atMicros int64) twin {
	t := &slidingWindowTwin{slidingWindowArithmetic: a, index: atMicros / a.window}
	elapsed := atMicros % a.window
	t.previous = min(r[2], a.limit-free)
	t.current = a.limit - free - a.weight(t.previous, elapsed)
	return t
}

// slidingWindowTwin has the counts of one key. It counts as the script does.
type slidingWindowTwin struct {
	slidingWindowArithmetic
	index             int64 // of the window that was open last
	previous, current int64
}

// countsAt are the counts at a moment, and whether they had to be mended, for the clock stepped back.
func (t *slidingWindowTwin) countsAt(nowMicros int64) (previous, current int64, mend bool) {
	switch behind := nowMicros/t.window - t.index; {
	case t.previous == 0 && t.current == 0:
		return 0, 0, false
	case behind == 0:
		return t.previous, t.current, false
	case behind == 1:
		return t.current, 0, false
	case behind < 0:
		return 0, max(min(t.previous+t.current, t.limit), t.current), true
	default:
		return 0, 0, false
	}
}

func (t *slidingWindowTwin) takeAt(nowMicros, cost, count int64, _ bool) reply {
	elapsed := nowMicros % t.window
	previous, current, mend := t.countsAt(nowMicros)
	remaining := t.limit - current - t.weight(previous, elapsed)
	granted := fit(max(remaining, 0), cost, count)
	if units := granted * cost; units > 0 || mend {
		t.index, t.previous, t.current = nowMicros/t.window, previous, current+units
	}
	return reply{granted, remaining - granted*cost, previous, nowMicros}
}

func (t *slidingWindowTwin) peekAt(nowMicros int64) reply {
	elapsed := nowMicros % t.window
	previous, current, _ := t.countsAt(nowMicros)
	return reply{0, t.limit - current - t.weight(previous, elapsed), previous, nowMicros}
}

func (t *slidingWindowTwin) refundAt(_ int64, r reply, units int64) int64 {
	counted := &t.current
	switch taken := r[3]; t.index - taken/t.window {
	case 0:
	case 1:
		counted = &t.previous
	default:
		return 0
	}
	units = min(units, *counted)
	*counted -= units
	return units
}
