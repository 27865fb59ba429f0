package ration

import (
	"context"
	"fmt"
)

// receipt is what a Decision remembers of what was taken, so that it can be given back.
type receipt struct {
	limiter *Limiter
	plan    *preparedPlan
	keys    []any   // stored
	units   int64   // granted
	answer  []int64 // of the take script
	later   int64   // units that it granted besides, behind these

	atMicros int64 // when it was granted without Redis, by the Client's clock

	chained []Decision // of the limiters of a chain; the others are unset then
}

// ownAnswer is what the script would have answered to this request alone.
func (r *receipt) ownAnswer() []int64 {
	if r.later == 0 {
		return r.answer
	}
	return r.plan.answerBefore(r.answer, r.later)
}

// sharesWith says whether two limiters count together.
func (l *Limiter) sharesWith(other *Limiter) bool {
	return l.executor == other.executor && l.keys == other.keys
}

// Refund gives back what a decision took: to the key and under the plan that it was decided by. A denied decision, one of cost 0,
// and the zero one beside an error took nothing that can be given back: nothing is sent then. One round trip; writes the keys of the
// decision, and no longer than they lived anyway.
//
// The end of ctx does not stop it, for the request that ended may be why: it ends within the timeout of the limiter.
//
// Never is more given back than still weighs, so that nobody is granted what would not have been, had nothing been taken in the
// first place; and where that is not known, less:
//
//   - FixedWindow: to the window that it was taken from, while that is open, and was not cut or started again. It is known by its end
//     alone: a window of another length that ends in the same millisecond, after a change of the plan, is taken for it. A window that a
//     refunded grant opened keeps its end.
//   - SlidingWindow: to the window that it was counted in, while that weighs and has the same length.
//   - SlidingLog: the grant. More than 250 refunds of later grants than this, still in the log, are put where it is: what they gave
//     back weighs again when this grant is out, until theirs are.
//   - TokenBucket: at most what the bucket lacked of being full after the request, less what was refilled and given back by others
//     since; nothing where the plan was changed meanwhile, or 2^52 units were given back. So those of long ago come to nothing where
//     others come and go all the time.
//   - GCRA: what of the request's own units would not have been earned again by now, had the bucket been full before. Where much is
//     given back, other plans are the better choice.
//
// Give a decision back once: only SlidingLog knows its grants, and makes the second time nothing. A Reset, a lost key, a clock that
// stepped back before or after the request, and windows whose length was changed meanwhile are not seen.
//
// Of a decision that the failure policy made, nothing is given back but what the process owes Redis for it, as far as that still weighs.
//
// Errors: ErrForeignDecision, those of a decision, and ErrUnavailable, after which whether the units went back is not known.
func (l *Limiter) Refund(ctx context.Context, d Decision) error {
	if l == nil || l.executor == nil {
		return ErrClosed
	}
	r := d.receipt
	switch {
	case d.Granted == 0:
		return nil
	case r.limiter == nil || !r.limiter.sharesWith(l):
		return l.named(ErrForeignDecision)
	case r.plan == nil: // a failure policy admitted it
		l.local.giveBack(r.keys, r.units, r.atMicros)
		return nil
	}
	ctx = context.WithoutCancel(orBackground(ctx))
	a, err := l.executor.call(ctx, l.config.timeout, r.plan.refundOf(r.keys, r.ownAnswer(), r.units))
	if err == nil && len(a.own) != len(r.keys) {
		err = unavailable(fmt.Errorf("%s: %d integers in the reply, not %d", r.plan.refund.name, len(a.own), len(r.keys)))
	}
	l.denials.clear(r.keys)
	if err == nil {
		l.reporter.refunds.Add(1)
	}
	return l.named(err)
}
