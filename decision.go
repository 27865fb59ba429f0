package ration

import (
	"context"
	"time"
)

// Decision is the answer to a request. It is a plain value; the zero value is a denial.
type Decision struct {
	// Allowed says whether the request may go on.
	Allowed bool
	// Granted is how many units the request may use: the cost of an allowed one, for AllowUpTo what fitted, else 0.
	Granted int64
	// Limit is the most units the plan can ever grant at once: the Limit of a window, the Burst of a bucket; of a MultiPlan the
	// least of those.
	Limit int64
	// Remaining is how many whole units could be taken now: 0 to Limit; 0 where that is not known.
	Remaining int64
	// RetryAfter, of a denied request, is the least wait after which the same request is allowed, if nobody else takes
	// units meanwhile: exact to the microsecond, to the millisecond for FixedWindow, and never zero. Of an allowed request it
	// is zero.
	RetryAfter time.Duration
	// ResetAfter is the time until the key is as good as new: the window over, the bucket full. Zero if it is now.
	ResetAfter time.Duration
	// Source says who decided.
	Source Source
	// Cause is why Redis did not decide, but the failure policy; nil if it was Redis. It wraps ErrUnavailable.
	Cause error
	// Plan is the plan that decided, as ParsePlan reads it; of a MultiPlan the name of the one that binds.
	Plan string
	// Plans are the plans of a MultiPlan, one by one; nil for any other plan.
	Plans []PlanDecision

	receipt receipt // for Refund
}

// degradeBy tells, of a decision made up of several, that one of them was not Redis'.
func (d *Decision) degradeBy(one Decision) {
	if d.Cause == nil && one.Cause != nil {
		d.Source, d.Cause = one.Source, one.Cause
	}
}

// Source says who made a decision.
type Source string

// The sources of decisions.
const (
	SourceRedis      Source = "redis"
	SourceLease      Source = "lease"       // Redis, ahead of need: see Prefetch
	SourceDenyCache  Source = "deny-cache"  // Redis, a moment ago: see WithDenyCache
	SourceLocal      Source = "local"       // Redis did not answer: see FailLocal
	SourceFailOpen   Source = "fail-open"   // see FailOpen
	SourceFailClosed Source = "fail-closed" // see FailClosed
	SourceFailFunc   Source = "fail-func"   // see FailFunc
)

// Request is what Take decides.
type Request struct {
	// Key is whom the quota is charged to: 1 to 512 bytes. Key and TaggedKey build one from untrusted text.
	Key string
	// Cost is how many units the request takes: 0 or more, at most what the plan can ever grant. Zero is a look: it is
	// allowed, charges nothing, and reports what remains. So a request for one unit says 1.
	Cost int64
	// Keys are keys of their own for plans of a MultiPlan, by the names of the plans; Key is that of the others. All must be in
	// one slot of a Redis Cluster: so have one hash tag. A plan's scope holds for its own key too.
	Keys map[string]string
	// Plan replaces the limiter's plan for this request; it must be of the same kind. Nil: the plan of WithPlanFor, or
	// else the limiter's.
	Plan Plan
}

// Allower decides requests. A [Limiter] is one; whatever puts limits in front of something should ask for no more.
type Allower interface {
	Take(ctx context.Context, r Request) (Decision, error)
}
