package ration

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// FailurePolicy is what answers when Redis does not: [FailLocal], [FailOpen], [FailClosed] or [FailFunc]. What it answers is a Decision
// and not an error; its Source says that it was not Redis, and its Cause why.
//
// It answers for a call that timed out, met a breaker that is open, or was refused by Redis, for a reason of its state or of the
// configuration. Mistakes of the call, the end of its context, and ErrClosed stay errors; so do those of Reset and Refund, which
// decide nothing.
type FailurePolicy interface {
	// answer decides a request that Redis did not.
	answer(f failed) Decision
}

// failed is a request that Redis did not decide. A count of 0 is a look.
type failed struct {
	ctx     context.Context
	limiter *Limiter
	asked
	cause error
}

// decision is an answer of a policy's. What remains is not known.
func (f failed) decision(source Source, allowed bool) Decision {
	d := Decision{Allowed: allowed, Limit: f.plan.limit, Source: source, Cause: f.cause, Plan: f.plan.text}
	if allowed {
		d.Granted = f.units()
	} else {
		d.RetryAfter = retryAfterFailure
	}
	for _, one := range f.plan.parts {
		d.Plans = append(d.Plans, PlanDecision{Name: one.name, Plan: one.text, Limit: one.limit, RetryAfter: d.RetryAfter})
	}
	return d
}

// retryAfterFailure is the RetryAfter of a request that was denied because Redis did not answer: about when a breaker lets the next
// probe through.
const retryAfterFailure = time.Second

// OnFailure sets what answers when Redis does not. Unless set, it is [FailLocal].
func OnFailure(policy FailurePolicy) Option {
	return option(func(c *limiterConfig) error {
		if policy == nil {
			return fmt.Errorf("%w: OnFailure: is nil", ErrInvalidOption)
		}
		if f, ok := policy.(failFunc); ok && f == nil {
			return fmt.Errorf("%w: OnFailure: the function of FailFunc is nil", ErrInvalidOption)
		}
		c.policy = policy
		return nil
	})
}

// FailOpen admits every request that Redis does not decide: for a service that would rather be overrun than refuse. What remains
// is not known, and reported as 0.
func FailOpen() FailurePolicy { return failOpen{} }

type failOpen struct{}

func (failOpen) answer(f failed) Decision { return f.decision(SourceFailOpen, true) }

// FailClosed denies every request that Redis does not decide, with a RetryAfter of a second: for a limit that guards what must not
// be overrun. A look, of cost 0, is allowed.
func FailClosed() FailurePolicy { return failClosed{} }

type failClosed struct{}

func (failClosed) answer(f failed) Decision { return f.closed(SourceFailClosed) }

// closed denies, except a look.
func (f failed) closed(source Source) Decision {
	return f.decision(source, f.count > 0 && f.units() == 0)
}

// FailFunc has a function decide what Redis does not. It is called by several goroutines at once, and its caller waits for it. The
// request is as Take was given it, of AllowUpTo with n for its Cost, of Peek with 0; cause is why Redis did not decide, and wraps
// ErrUnavailable.
//
// Of its Decision, Allowed counts, and Granted, RetryAfter, Remaining and ResetAfter are passed on; an allowed one without Granted has
// its cost granted, and a denied one without RetryAfter is told a second. A function that panics has denied.
func FailFunc(decide func(ctx context.Context, r Request, cause error) Decision) FailurePolicy {
	return failFunc(decide)
}

type failFunc func(ctx context.Context, r Request, cause error) Decision

func (decide failFunc) answer(f failed) (d Decision) {
	defer func() {
		if p := recover(); p != nil {
			f.cause = errors.Join(f.cause, fmt.Errorf("ration: panic in the function of FailFunc: %v", p))
			d = f.closed(SourceFailFunc)
		}
	}()
	said := decide(f.ctx, Request{Key: f.key, Cost: f.units()}, f.cause)
	d = f.decision(SourceFailFunc, said.Allowed)
	d.Remaining, d.ResetAfter = said.Remaining, said.ResetAfter
	switch {
	case said.Allowed && said.Granted > 0:
		d.Granted = min(said.Granted, f.units())
	case !said.Allowed && said.RetryAfter > 0:
		d.RetryAfter = said.RetryAfter
	}
	return d
}

// isFailure says that an error is one that the failure policy answers.
func isFailure(err error) bool {
	return failureOf(err) != nil
}
