package ration

import "context"

// receipt is what a Decision remembers of what was taken, so that it can be given back.
type receipt struct {
	limiter *Limiter
	plan    *preparedPlan
	keys    []any   // stored
	units   int64   // granted
	answer  []int64 // of the take script

	chained []Decision // of the limiters of a chain; the others are unset then
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
// Never is more given back than still weighs on the quota, so that nobody is granted what would not have been, had nothing been
// taken in the first place. Of a FixedWindow the units go back to the window that they were taken from, while it is open; of a
// SlidingWindow to that window too, while it weighs; of a SlidingLog to the grant. Of a TokenBucket and GCRA what was earned
// again since does not go back, supposing that nobody else took anything meanwhile: so it is at most what the bucket lacked
// of being full after the decision, less what was refilled since. Where the plan's numbers changed meanwhile, nothing goes back
// to a TokenBucket, nor to windows of another length.
//
// Give a decision back once: only SlidingLog knows its grants, and makes the second time nothing. A Reset, a lost key and a
// clock that stepped back are not seen, except as said at the plans.
//
// Errors: ErrForeignDecision, and those of a decision. Whether the units went back is not known after ErrUnavailable.
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
	}
	lead := r.plan.takenBy(r.answer, r.units)
	ctx = context.WithoutCancel(orBackground(ctx))
	_, err := l.executor.call(ctx, l.config.timeout, r.plan.refund, r.keys, lead, r.plan.argsRefund)
	return l.named(err)
}
