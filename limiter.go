package ration

import (
	"context"
	"fmt"
)

// Limiter decides requests under one plan, and counts in Redis, for all processes together. Most callers want [Limiter.Allow].
//
// A Limiter comes from Client.Limiter; the zero value answers ErrClosed. It is safe for concurrent use.
//
// Every decision is one round trip, one script call on one key, of a [MultiPlan] on one for each plan, which it writes only when
// it grants, or to mend the key. A denial is a Decision and never an error. The errors are mistakes of the call (ErrInvalidKey,
// ErrInvalidCost, *[CostError], *[PlanError], ErrPlanKind, *[CrossSlotError]: nothing was sent), the end of ctx, ErrUnavailable when Redis gave no answer in time (whether
// the units were charged is then not known), and ErrClosed.
type Limiter struct {
	name     string
	plan     *preparedPlan
	config   limiterConfig
	keys     keySpace
	recent   recentKeys
	executor *executor
	plans    planCache // of WithPlanFor and Request.Plan
}

var _ Allower = (*Limiter)(nil)

// Allow decides a request for one unit.
func (l *Limiter) Allow(ctx context.Context, key string) (Decision, error) {
	return l.Take(ctx, Request{Key: key, Cost: 1})
}

// AllowN decides a request for n units: all of them or none. An n of 0 is a look: it is allowed, charges nothing, and
// reports what remains.
func (l *Limiter) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	return l.Take(ctx, Request{Key: key, Cost: n})
}

// AllowUpTo takes as many units as there are, up to n: Decision.Granted. It is denied only where n is not 0 and there is
// none. An n above what the plan can ever grant is no error.
func (l *Limiter) AllowUpTo(ctx context.Context, key string, n int64) (Decision, error) {
	plan, keys, err := l.check(Request{Key: key, Cost: min(n, 1)})
	switch {
	case err != nil:
		return Decision{}, l.named(err)
	case n == 0:
		return l.take(ctx, plan, keys, plan.args, 0, 1)
	default:
		return l.take(ctx, plan, keys, plan.argsUpTo, 1, min(n, plan.limit))
	}
}

// Take decides a request; Allow and AllowN are short for it. A Request whose Cost is not set is a look: it charges nothing,
// and is always allowed.
func (l *Limiter) Take(ctx context.Context, r Request) (Decision, error) {
	plan, keys, err := l.check(r)
	if err != nil {
		return Decision{}, l.named(err)
	}
	return l.take(ctx, plan, keys, plan.args, r.Cost, 1)
}

// Peek reports what a request for one unit would find now, and writes nothing: Allowed if a unit remains, Granted 0. After a
// changed plan, or a clock that stepped back, its RetryAfter is what such a request would be told, and holds once one was
// decided, which writes what changed: AllowN of 0 units will do. One round trip. The errors are those of a decision.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	plan, keys, err := l.check(Request{Key: key})
	if err != nil {
		return Decision{}, l.named(err)
	}
	answer, err := l.executor.call(ctx, l.config.timeout, plan.peek, keys, nil, plan.args)
	if err != nil {
		return Decision{}, l.named(err)
	}
	d, err := plan.afterPeek(answer)
	return d, l.named(err)
}

// Reset forgets what was counted for a key under its plan of now: its next request finds it as good as new. Of a [MultiPlan] it
// forgets what all plans counted for it, those whose scope is PerTag for all other keys of the tag too. One round trip; deletes
// the key. The errors are those of a decision.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	_, keys, err := l.check(Request{Key: key})
	if err != nil {
		return l.named(err)
	}
	return l.named(l.executor.delete(ctx, l.config.timeout, keys...))
}

// named adds the limiter's name to an error. The end of ctx is passed on as it is.
func (l *Limiter) named(err error) error {
	if err == nil || err == context.Canceled || err == context.DeadlineExceeded || l == nil { //nolint:errorlint // only ctx.Err() itself
		return err
	}
	return &limiterError{l.name, err}
}

// check finds the mistakes in a request, before the network, and the plan that decides it, with the stored keys.
func (l *Limiter) check(r Request) (*preparedPlan, []any, error) {
	if l == nil || l.executor == nil {
		return nil, nil, ErrClosed
	}
	if len(r.Keys) == 0 {
		if err := checkKey(r.Key); err != nil {
			return nil, nil, err
		}
	}
	if r.Cost < 0 {
		return nil, nil, fmt.Errorf("%w: it is %d: must be 0 or more", ErrInvalidCost, r.Cost)
	}
	plan, err := l.planOf(r)
	if err != nil {
		return nil, nil, err
	}
	if r.Cost > plan.limit {
		return nil, nil, plan.costError(r.Cost)
	}
	if len(r.Keys) > 0 {
		keys, err := l.keys.storedApart(plan, r)
		return plan, keys, err
	}
	return plan, l.recent.stored(l.keys, plan, r.Key), nil
}

func (l *Limiter) planOf(r Request) (*preparedPlan, error) {
	own := r.Plan
	if own == nil && l.config.planFor != nil {
		if plan, found := l.config.planFor(r.Key); found {
			if plan == nil {
				return nil, &PlanError{Plan: "plan of WithPlanFor", Reason: "is nil"}
			}
			own = plan
		}
	}
	if own == nil {
		return l.plan, nil
	}
	plan, err := l.plans.prepare(own)
	if err != nil {
		return nil, err
	}
	if plan.kind != l.plan.kind {
		return nil, fmt.Errorf("%w: %s, not %s", ErrPlanKind, plan.text, l.plan.text)
	}
	return plan, nil
}

// take decides `count` requests of `cost` units each, of which as many are granted as fit.
func (l *Limiter) take(
	ctx context.Context, plan *preparedPlan, keys, args []any, cost, count int64,
) (Decision, error) {
	script, lead := plan.take, []any{plan.cost(cost), count}
	if plan.one != nil && count == 1 {
		script, lead = plan.one, lead[:1]
	}
	answer, err := l.executor.call(ctx, l.config.timeout, script, keys, lead, args)
	if err != nil {
		return Decision{}, l.named(err)
	}
	d, err := plan.afterTake(answer, cost, count)
	if err != nil {
		return Decision{}, l.named(err)
	}
	if d.Granted > 0 {
		d.receipt = receipt{l, plan, keys, d.Granted, answer}
	}
	return d, nil
}
