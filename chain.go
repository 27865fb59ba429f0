package ration

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// LimiterChain asks several limiters, one after the other, and admits what all of them admit: for limits that cannot live in
// one slot of a Redis Cluster, such as one limit over all tenants besides that of each. Where they can, a [MultiPlan] is
// better: it decides at once, in one round trip.
//
// A chain is not atomic. When a limiter denies or fails, those before it give back what they granted, all at once, and so:
//
//   - never is more admitted than each of the limiters admits
//   - while a request is on its way, its units weigh on the limiters that granted it, so that others may be denied there, which
//     would have passed: at most the cost of all requests on their way, for at most the timeouts of the chain's limiters and a
//     refund's together
//   - a refund that is lost, because Redis or the process is, leaves the units charged, at most the cost once for each limiter
//     before the one that denied. So put first what denies most
//   - what was earned again meanwhile does not go back, as [Limiter.Refund] says of each plan, nor to a TokenBucket what others gave
//     back meanwhile; least goes back to a GCRA. These two are best put last
//
// Put its keys right by WithKeyFor where a limiter does not count by the key of the request. A LimiterChain comes from Chain; the
// zero value answers ErrClosed. It is safe for concurrent use.
type LimiterChain struct {
	limiters []*Limiter
}

var _ Allower = (*LimiterChain)(nil)

// Chain makes a chain of 1 to 16 limiters, of any clients, asked in this order.
//
// Errors: ErrInvalidOption, for a nil limiter, one that is there twice, none, and too many.
func Chain(limiters ...*Limiter) (*LimiterChain, error) {
	if len(limiters) == 0 || len(limiters) > maxPlans {
		return nil, fmt.Errorf("%w: Chain: has %d limiters: must have 1 to %d", ErrInvalidOption, len(limiters), maxPlans)
	}
	for i, l := range limiters {
		if l == nil || l.executor == nil {
			return nil, fmt.Errorf("%w: Chain: limiter %d is nil, or not made by a Client", ErrInvalidOption, i)
		}
		for _, other := range limiters[:i] {
			if l.sharesWith(other) {
				return nil, fmt.Errorf("%w: Chain: limiter %q is there twice", ErrInvalidOption, l.name)
			}
		}
	}
	return &LimiterChain{append([]*Limiter(nil), limiters...)}, nil
}

// Allow decides a request for one unit.
func (c *LimiterChain) Allow(ctx context.Context, key string) (Decision, error) {
	return c.Take(ctx, Request{Key: key, Cost: 1})
}

// AllowN decides a request for n units: all of them or none. An n of 0 is a look.
func (c *LimiterChain) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	return c.Take(ctx, Request{Key: key, Cost: n})
}

// Take decides a request; Allow and AllowN are short for it. A mistake in the request is found before any limiter is asked.
// Request.Keys and Request.Plan are not for a chain.
//
// A denial is the Decision of the limiter that denied. Its Plan is the name of the limiter, or limiter/plan where that has a
// MultiPlan. Those behind it were not asked, so the request may have to wait for longer than RetryAfter. Of an allowed request
// Limit and Remaining are the least of all limiters, ResetAfter the longest, and Plan names the one with the least left in
// proportion. Plans has each limiter that had a say, by its name, and a plan of a MultiPlan as limiter/plan.
//
// One round trip for each limiter, and one more when units are given back. What a limiter's failure policy decides is its decision;
// Source and Cause are then those of the first such limiter. The errors are those of the limiter that failed; whether that one charged
// the request is not known then, but the others have their units back.
func (c *LimiterChain) Take(ctx context.Context, r Request) (Decision, error) {
	if c == nil || len(c.limiters) == 0 {
		return Decision{}, ErrClosed
	}
	if r.Keys != nil {
		return Decision{}, fmt.Errorf("%w: Keys are not for a chain: make its limiters WithKeyFor", ErrInvalidKey)
	}
	if r.Plan != nil {
		return Decision{}, fmt.Errorf("%w: a plan for one request is not for a chain: make its limiters WithPlanFor", ErrPlanKind)
	}
	requests := make([]asked, len(c.limiters))
	for i, l := range c.limiters {
		var err error
		if requests[i], err = l.check(r); err != nil {
			return Decision{}, l.named(err)
		}
	}
	granted := make([]Decision, 0, len(c.limiters))
	for i, l := range c.limiters {
		d, err := l.decide(ctx, requests[i])
		if err != nil || !d.Allowed {
			_ = c.giveBack(ctx, granted)
			return l.denial(d), err
		}
		granted = append(granted, d)
	}
	return c.all(granted), nil
}

// Refund gives back what a decision of this chain took, as each of its limiters does, all at once. The end of ctx does not stop it.
//
// Errors: ErrForeignDecision, and those of a limiter that failed.
func (c *LimiterChain) Refund(ctx context.Context, d Decision) error {
	switch {
	case c == nil || len(c.limiters) == 0:
		return ErrClosed
	case d.Granted == 0:
		return nil
	case !c.made(d):
		return ErrForeignDecision
	default:
		return c.giveBack(ctx, d.receipt.chained)
	}
}

// made says whether a decision is of a chain of the same limiters.
func (c *LimiterChain) made(d Decision) bool {
	return slices.EqualFunc(c.limiters, d.receipt.chained, func(l *Limiter, granted Decision) bool {
		return granted.receipt.limiter != nil && granted.receipt.limiter.sharesWith(l)
	})
}

// giveBack gives back what the first limiters granted, all at once, and answers the error of one that failed.
func (c *LimiterChain) giveBack(ctx context.Context, granted []Decision) error {
	return atOnce(len(granted), func(i int) error { return c.limiters[i].Refund(ctx, granted[i]) })
}

// all is the decision of a request that every limiter granted.
func (c *LimiterChain) all(granted []Decision) Decision {
	all := granted[0]
	all.Plans = nil
	for i, d := range granted {
		all.Limit = min(all.Limit, d.Limit)
		all.Remaining = min(all.Remaining, d.Remaining)
		all.ResetAfter = max(all.ResetAfter, d.ResetAfter)
		all.Plans = append(all.Plans, c.limiters[i].plansOf(d)...)
		all.degradeBy(d)
	}
	all.Plan = binding(all.Plans)
	all.receipt = receipt{chained: granted}
	return all
}

// denial is a decision that denied, by the name of the limiter; of an error it is nothing.
func (l *Limiter) denial(d Decision) Decision {
	if d.Plan == "" {
		return Decision{}
	}
	d.Plans = l.plansOf(d)
	d.Plan = binding(d.Plans)
	return d
}

// plansOf is what a decision of the limiter says, as that of one plan or of several among others.
func (l *Limiter) plansOf(d Decision) []PlanDecision {
	if d.Plans == nil {
		return []PlanDecision{{l.name, d.Plan, d.Limit, d.Remaining, d.RetryAfter, d.ResetAfter}}
	}
	plans := make([]PlanDecision, len(d.Plans))
	for i, one := range d.Plans {
		plans[i] = one
		plans[i].Name = l.name + "/" + one.Name
	}
	return plans
}

// atOnce does n things at once, and answers the error of the first that failed.
func atOnce(n int, do func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
