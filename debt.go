package ration

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// errSettling is why a request is decided here, too, when Redis is back already.
var errSettling = unavailable(errors.New("it is back, and being charged with what was granted without it"))

// errPaying is why a request is decided here where its time was spent on what its key owes, or others pay that just now.
var errPaying = unavailable(errors.New("what was granted without Redis is being charged to it"))

// oweLocked notes what was granted under an entry: beside what is being paid at most the whole plan, which is all that Redis could be
// charged. Of keys that are counted together nobody knows whom to charge.
func (l *local) oweLocked(e *localEntry, units int64) {
	if e.limiter == nil || units == 0 {
		return
	}
	most := e.whole.limit
	if e.payment != nil {
		most += e.payment.debt
	}
	l.setDebtLocked(e, min(e.debt+units, most))
	e.isPaid = false
}

// owe notes what was granted to a request under the shares of its keys, which may have been forgotten since.
func (l *local) owe(limiter *Limiter, a asked, units int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	for i, one := range a.plan.each() {
		key := a.keys[i].(string)
		e := l.entries[key]
		if e == nil {
			if e = l.entry(limiter, one, key, now); e.twin != nil {
				e.twin.takeAt(now, 1, units, true)
			}
		}
		l.oweLocked(e, units)
	}
}

func (l *local) setDebtLocked(e *localEntry, debt int64) {
	switch {
	case e.debt == 0 && debt > 0:
		l.owing.Add(1)
		l.owers[e.key] = struct{}{}
	case e.debt > 0 && debt == 0:
		l.owing.Add(-1)
	}
	e.debt = debt
}

// forgive takes units that were granted here at a moment off what the keys of a request owe, for Redis was charged with them, and says
// whether they all owed that much for it; what is being paid is not taken back.
func (l *local) forgive(keys []any, units, atMicros int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	for _, key := range keys {
		if e := l.entries[key.(string)]; e == nil || e.payment != nil || e.debt < units || !e.isInWindow(atMicros, now) {
			return false
		}
	}
	for _, key := range keys {
		e := l.entries[key.(string)]
		l.setDebtLocked(e, e.debt-units)
	}
	return true
}

// giveBack takes what still weighs of a grant that was made here at a moment off what its keys owe; what is being paid is not taken back.
// The rest of what they owe is for other grants.
func (l *local) giveBack(keys []any, units, atMicros int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	for _, key := range keys {
		e := l.entries[key.(string)]
		if e == nil || e.payment != nil || !e.isInWindow(atMicros, now) {
			continue
		}
		weighs := max(units-e.whole.earned(micros(now-atMicros)), 0)
		l.setDebtLocked(e, max(e.debt-weighs, 0))
	}
}

// isInWindow says that what was granted at a moment may weigh: of a bucket always.
func (e *localEntry) isInWindow(atMicros, now int64) bool {
	switch plan := e.whole.plan.(type) {
	case FixedWindow:
		left := int64(0)
		if e.twin != nil {
			left = int64(e.plan.outcome(e.twin.peekAt(now), 1).resetAfter / time.Microsecond)
		}
		return left > 0 && atMicros >= now+left-plan.Window.Microseconds()
	case SlidingWindow:
		return now-atMicros < plan.Window.Microseconds()
	case SlidingLog:
		return now-atMicros < plan.Window.Microseconds()
	default:
		return true
	}
}

// settleFirst sees to it that Redis knows what was granted without it, before it decides a request: it would grant that anew. It answers
// why that is not so yet, and the request is to be decided here; and what is left of the timeout.
//
// Where the breaker is open, or the key owes something, the next is not the request but a question that charges nothing: a payment whose
// answer does not come is lost. And once a breaker has closed, all is decided here too, by errSettling, until the other
// processes of the fleet have had the time to notice, and to pay.
func (l *local) settleFirst(
	ctx context.Context, timeout time.Duration, limiter *Limiter, keys []any,
) (left time.Duration, cause error) {
	e := limiter.executor
	lane := e.lanes.of(keys[0].(string))
	breaker := lane.breaker
	if cause := lane.refused(ctx); cause != nil {
		return 0, cause
	}
	owes := l.owing.Load() > 0 && l.owes(keys)
	if !owes && !breaker.isOpen() {
		if breaker.isSettling() {
			return timeout, errSettling
		}
		return timeout, nil
	}
	begin := time.Now()
	rest := func() time.Duration { return timeout - time.Since(begin) }
	if cause := e.probe(ctx, timeout, keys[0].(string)); cause != nil {
		return 0, cause
	}
	settles := breaker.isSettling()
	for _, key := range keys {
		switch cause := l.pay(ctx, rest(), key.(string)); {
		case cause == errPaying: //nolint:errorlint // as it is
			settles = true
		case cause != nil:
			return 0, cause
		}
	}
	switch left := rest(); {
	case left <= 0:
		return 0, errPaying
	case settles:
		return left, errSettling
	default:
		return left, nil
	}
}

// owes says whether one of the keys owes something.
func (l *local) owes(keys []any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(keys, func(key any) bool {
		e := l.entries[key.(string)]
		return e != nil && (e.debt > 0 || e.payment != nil)
	})
}

// payment is what an entry owed when it began to pay that.
type payment struct {
	debt   int64
	madeAt int64 // nanos
}

// paymentLost is how long a payment may be on its way. One that takes longer, for a redis client without timeouts may wait for ever, is
// taken for charged.
const paymentLost = time.Minute

func (p *payment) isLost() bool { return p != nil && nanos()-p.madeAt > int64(paymentLost) }

// settleLocked ends a payment, unless it was taken for charged before. The rest is what is owed of it still, for Redis had no room, or did
// not take it.
func (l *local) settleLocked(key string, e *localEntry, p *payment, rest int64, noRoom bool) {
	if e.payment != p {
		return
	}
	e.payment = nil
	if l.entries[key] != e {
		return
	}
	l.setDebtLocked(e, max(e.debt-p.debt, 0)+rest)
	e.isPaid = e.debt == 0
	if !noRoom {
		e.payAt, e.payPause = 0, 0
		return
	}
	e.payPause = min(max(2*e.payPause, noRoomPause), longestNoRoomPause)
	e.payAt = nanos() + int64(e.payPause)
}

// pay charges Redis with what a key owes, as much of it as still weighs, and as Redis has left; the rest stays owed, for Redis may have
// room before it no longer weighs, where it was charged with an earlier debt later than that was made. It is charged at most once: where
// that is not known, it is taken for charged.
func (l *local) pay(ctx context.Context, timeout time.Duration, key string) (cause error) {
	l.mu.Lock()
	e := l.entries[key]
	if e != nil && e.payment.isLost() {
		l.settleLocked(key, e, e.payment, 0, false)
	}
	switch {
	case e == nil || e.debt == 0 && e.payment == nil:
		l.mu.Unlock()
		return nil
	case e.payment != nil:
		cause := e.refusal
		l.mu.Unlock()
		if cause == nil {
			cause = errPaying
		}
		return cause
	}
	debt, units, limiter, plan := e.debt, e.weighing(key, l.clock()), e.limiter, e.whole
	payment := &payment{debt: debt, madeAt: nanos()}
	e.payment = payment
	l.mu.Unlock()

	settled := func(rest int64, noRoom bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.settleLocked(key, e, payment, rest, noRoom)
	}
	paid := func(answer []int64, err error, mayHaveRun bool) {
		l.noteRefusal(e, err)
		switch {
		case err == nil:
			limiter.reporter.paidUnits.Add(answer[0])
			l.known.put(hashOf(key), plan, replyOf(answer), l.clock())
			rest := max(units-answer[0], 0)
			settled(rest, rest > 0)
		case mayHaveRun:
			settled(0, false)
		default:
			settled(debt, false)
		}
	}
	if units == 0 {
		settled(0, false)
		return nil
	}
	a, err := limiter.executor.call(ctx, timeout, order{
		script: plan.take, keys: []any{key}, lead: []any{plan.costOfOne, units}, args: plan.argsOfDebt,
	})
	if a.late == nil {
		paid(a.own, err, isFailure(err) && mayHaveRun(err))
	} else {
		a.late.whenEnded(limiter.executor, func(answer []int64, err error) { paid(answer, err, mayHaveRun(err)) })
	}
	return err
}

// A payment that Redis had no room for is tried again in the background after noRoomPause, and then twice as long each time.
const (
	noRoomPause        = 500 * time.Millisecond
	longestNoRoomPause = time.Minute
)

// noteRefusal notes how a request or a payment ended that Redis did not decide or take.
func (l *local) noteRefusal(e *localEntry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.noteRefusalLocked(err)
}

// noteRefusalLocked notes why Redis refused, if it did. Until Redis has answered otherwise that, and not the payment on its way, is why the
// requests of the key are decided here.
func (e *localEntry) noteRefusalLocked(err error) {
	e.refusal = nil
	if failed := failureOf(err); failed != nil && failed.isFault {
		e.refusal = failed
	}
}

// weighing is how much of what an entry owes still weighs: of a window that has ended nothing, of a bucket what is not refilled.
//
// But the bucket in Redis may have been back before this process noticed, and was charged with what others owe. What the share has earned
// since then, and granted again, would be missing there, for a bucket that is full earns nothing.
//
// And where the window that Redis had is over, the payment opens a new one, in which it weighs for as long as a whole window does, and not
// as long as the one here. So of that only the part is charged that is left of the window here: in both windows together no more is granted
// then than in as much time at any other.
func (e *localEntry) weighing(key string, now int64) int64 {
	if e.twin == nil {
		return e.debt
	}
	weighs := min(e.debt, e.plan.limit-e.room(now)+e.plan.earned(e.limiter.executor.lanes.of(key).breaker.backSince()))
	window, ok := e.plan.plan.(FixedWindow)
	if last := e.limiter.local.known.get(key); ok && !window.Aligned && last != nil && last.isOver(now) {
		left := e.plan.outcome(e.twin.peekAt(now), 1).resetAfter
		return min(mulDiv(weighs, int64(min(left, window.Window)), int64(window.Window))+1, weighs)
	}
	return weighs
}

// earned is what a bucket earns in a time, rounded up; at most what it holds. A window earns nothing.
func (p *preparedPlan) earned(span time.Duration) int64 {
	var r Rate
	switch bucket := p.plan.(type) {
	case TokenBucket:
		r = bucket.Rate
	case GCRA:
		r = bucket.Rate
	default:
		return 0
	}
	if span == 0 {
		return 0
	}
	// Of long spans it does not matter, and they do not overflow.
	if span > r.Per && (span/r.Per > math.MaxInt32 || r.Units > math.MaxInt32 || int64(span/r.Per)*r.Units >= p.limit) {
		return p.limit
	}
	return min(mulDiv(int64(span), r.Units, int64(r.Per))+1, p.limit)
}

// redisDecided forgets what was counted of keys, for Redis counts them again; but for what they owe it still.
func (l *local) redisDecided(keys []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		switch one := l.entries[key.(string)]; {
		case one == nil:
		case one.debt == 0 && one.payment == nil:
			l.removeLocked(key.(string))
		default:
			one.isOld = true
		}
	}
}
