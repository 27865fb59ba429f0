package ration

import (
	"context"
	"fmt"
	"time"
)

// Limiter decides requests under one plan, and counts in Redis, for all processes together. Most callers want [Limiter.Allow].
//
// A Limiter comes from Client.Limiter; the zero value answers ErrClosed. It is safe for concurrent use.
//
// Every decision is one round trip at most, one script call on one key, of a [MultiPlan] on one for each plan, which it writes only
// when it grants, or to mend the key. While four round trips are on their way to a server, requests that come wait for the next, and share
// it; those for one key of one cost share a script call too, and are decided as if they had come one by one, and so may those for several
// keys: see [WithKeysPerCall]. What was denied just now is denied without a round trip, and what was taken ahead is granted without one: see
// [WithDenyCache] and [WithPrefetch]. A denial is a Decision and never an error; and so is what the [FailurePolicy] decides when Redis gives
// no answer in time, or a fault. The errors are mistakes of the call (ErrInvalidKey, ErrInvalidCost, *[CostError], *[PlanError],
// ErrPlanKind, *[CrossSlotError]: nothing was sent), the end of ctx, and ErrClosed.
type Limiter struct {
	name     string
	plan     *preparedPlan
	config   limiterConfig
	keys     keySpace
	recent   recentKeys
	executor *executor
	local    *local
	denials  *denials
	leases   *leases
	stages   stage
	isLocal  bool // FailLocal is its policy
	presence *presence
	reporter *reporter
	lines    limiterLines
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
	asked, err := l.check(Request{Key: key, Cost: min(n, 1)})
	if err != nil {
		return Decision{}, l.named(err)
	}
	if n > 0 {
		asked.upTo, asked.count = true, min(n, asked.plan.limit)
	}
	return l.decide(ctx, asked)
}

// Take decides a request; Allow and AllowN are short for it. A Request whose Cost is not set is a look: it charges nothing,
// and is always allowed.
func (l *Limiter) Take(ctx context.Context, r Request) (Decision, error) {
	asked, err := l.check(r)
	if err != nil {
		return Decision{}, l.named(err)
	}
	return l.decide(ctx, asked)
}

// Peek reports what a request for one unit would find now, and writes nothing: Allowed if a unit remains, Granted 0. After a
// changed plan, or a clock that stepped back, its RetryAfter is what such a request would be told, and holds once one was
// decided, which writes what changed: AllowN of 0 units will do. One round trip. The errors are those of a decision.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	a, err := l.check(Request{Key: key})
	if err != nil {
		return Decision{}, l.named(err)
	}
	began := l.reporter.begin()
	var d Decision
	if a.plan.shards != nil {
		d, err = l.peekShards(ctx, a)
	} else {
		d, err = l.peek(ctx, a)
		d = l.withHeld(a, d)
	}
	if err == nil {
		l.reporter.decided(ctx, l, a, &d, began)
	}
	return d, err
}

// Reset forgets what was counted for a key under its plan of now: its next request finds it as good as new. Of a [MultiPlan] it
// forgets what all plans counted for it, those whose scope is PerTag for all other keys of the tag too. One round trip; deletes
// the key. The errors are those of a decision, and ErrUnavailable; what is counted here is forgotten all the same.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	asked, err := l.check(Request{Key: key})
	switch {
	case err != nil:
		return l.named(err)
	case asked.plan.shards != nil:
		return l.resetShards(ctx, asked)
	default:
		return l.reset(ctx, asked)
	}
}

// named adds the limiter's name to an error. The end of ctx is passed on as it is.
func (l *Limiter) named(err error) error {
	if err == nil || err == context.Canceled || err == context.DeadlineExceeded || l == nil { //nolint:errorlint // only ctx.Err() itself
		return err
	}
	return &limiterError{l.name, err}
}

// asked is what a request without mistakes comes to: `count` requests of `cost` units each, of which as many are granted as fit.
type asked struct {
	plan        *preparedPlan
	key         string // that is counted
	keys        []any  // where, stored; nil of a plan with shards
	hash        uint64 // by what they are known together
	cost, count int64
	upTo        bool  // they are one, which takes what fits
	keysApart   bool  // the plans have keys of their own
	ahead       int64 // as many more are to be granted, as fit, for later
}

// units is what is asked for, but for what is to be taken ahead.
func (a asked) units() int64 { return a.cost * a.count }

// check finds the mistakes in a request, before the network.
func (l *Limiter) check(r Request) (asked, error) {
	if l == nil || l.executor == nil || l.executor.isClosed() {
		return asked{}, ErrClosed
	}
	if l.config.keyFor != nil {
		r.Key = l.config.keyFor(r.Key)
	}
	if len(r.Keys) == 0 {
		if err := checkKey(r.Key); err != nil {
			return asked{}, err
		}
	}
	if r.Cost < 0 {
		return asked{}, fmt.Errorf("%w: it is %d: must be 0 or more", ErrInvalidCost, r.Cost)
	}
	plan, err := l.planOf(r)
	switch {
	case err != nil:
		return asked{}, err
	case r.Cost > plan.limit:
		return asked{}, plan.costError(r.Cost)
	case len(r.Keys) > 0:
		keys, err := l.keys.storedApart(plan, r)
		return asked{plan: plan, key: r.Key, keys: keys, hash: l.keys.hashOf(plan, r), cost: r.Cost, count: 1, keysApart: true}, err
	case plan.shards != nil:
		return asked{plan: plan, key: r.Key, cost: r.Cost, count: 1}, nil
	default:
		keys, hash := l.recent.stored(l.keys, plan, r.Key)
		return asked{plan: plan, key: r.Key, keys: keys, hash: hash, cost: r.Cost, count: 1}, nil
	}
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

// decide decides a request, and tells of it.
func (l *Limiter) decide(ctx context.Context, a asked) (d Decision, err error) {
	began := l.reporter.begin()
	if a.plan.shards != nil {
		d, err = l.decideAtShards(ctx, a)
	} else {
		d, err = l.take(ctx, l.config.timeout, a)
	}
	if err == nil {
		l.reporter.decided(ctx, l, a, &d, began)
	}
	return d, err
}

// take decides a request at one place.
func (l *Limiter) take(ctx context.Context, timeout time.Duration, a asked) (Decision, error) {
	d, err := l.stages.take(ctx, timeout, a)
	if d.Granted == 0 {
		d.receipt = receipt{}
	}
	return d, l.named(err)
}

// byRedis decides by Redis, or by what there is for when it does not answer: the last stage.
type byRedis struct{ *Limiter }

func (l *byRedis) take(ctx context.Context, timeout time.Duration, a asked) (Decision, error) {
	if l.isLocal {
		l.presence.use()
		left, cause := l.local.settleFirst(ctx, timeout, l.Limiter, a.keys)
		timeout = left
		switch {
		case cause == errSettling: //nolint:errorlint // as it is
			return l.takeSettling(ctx, a, timeout)
		case isFailure(cause):
			return l.fallBack(ctx, a, cause, nil), nil
		case cause != nil:
			return Decision{}, cause
		}
	}
	d, late, err := l.ask(ctx, timeout, a)
	switch {
	case err == nil:
		if l.local.counted.Load() > 0 {
			l.local.redisDecided(a.keys)
		}
		return d, nil
	case isFailure(err):
		return l.fallBack(ctx, a, err, late), nil
	default:
		l.settleLate(a, Decision{}, late)
		return Decision{}, err
	}
}

// ask decides by the take script of a plan.
func (l *Limiter) ask(ctx context.Context, timeout time.Duration, a asked) (Decision, *lateAnswer, error) {
	answer, err := l.executor.call(ctx, timeout, a.order())
	var d Decision
	if err == nil {
		d, err = a.plan.afterTake(answer.own, a.cost, a.count+a.ahead)
	}
	if err != nil {
		return Decision{}, answer.late, err
	}
	l.lines.decided()
	if l.isLocal {
		l.local.learn(a, answer.latest)
	}
	d.receipt = receipt{limiter: l, plan: a.plan, keys: a.keys, units: d.Granted, answer: answer.own}
	return d, nil, nil
}

// order is what Redis is asked.
func (a asked) order() order {
	if a.count == 1 && a.ahead == 0 && !a.upTo && !a.keysApart && !a.plan.denialCounts {
		return order{keys: a.keys, take: a.plan, key: a.key, cost: a.cost}
	}
	o := order{script: a.plan.take, keys: a.keys, lead: []any{a.plan.cost(a.cost), a.count + a.ahead}, args: a.plan.args}
	if a.upTo {
		o.args = a.plan.argsUpTo
	}
	return o
}

// takeSettling decides while the fleet charges Redis with what was granted without it: by the share of this process, and then by Redis.
// Redis alone would grant the first who come what it has not been charged with yet, and the share alone would go on granting what Redis
// grants to others already.
func (l *Limiter) takeSettling(ctx context.Context, a asked, timeout time.Duration) (Decision, error) {
	a.ahead = 0
	own := l.local.decide(failed{orBackground(ctx), l, a, l.named(errSettling)}, false)
	if !own.Allowed {
		return own, nil
	}
	if a.upTo {
		a.count = own.Granted
	}
	d, late, err := l.ask(ctx, timeout, a)
	switch {
	case err == nil:
		return d, nil
	case isFailure(err):
		l.local.owe(l, a, own.Granted)
		own.Cause = l.named(err)
		own.receipt = receipt{limiter: l, keys: a.keys, units: own.Granted, atMicros: own.receipt.atMicros}
		l.settleLate(a, own, late)
		return own, nil
	default:
		l.settleLate(a, Decision{}, late)
		return Decision{}, err
	}
}

// fallBack decides by the failure policy what Redis did not, and does right by the answer when it comes.
func (l *Limiter) fallBack(ctx context.Context, a asked, cause error, late *lateAnswer) Decision {
	d := l.config.policy.answer(failed{orBackground(ctx), l, a, l.named(cause)})
	d.receipt = receipt{limiter: l, keys: a.keys, units: d.Granted, atMicros: d.receipt.atMicros}
	l.settleLate(a, d, late)
	return d
}

// settleLate settles an answer when it comes, if there is one to come.
func (l *Limiter) settleLate(a asked, decided Decision, late *lateAnswer) {
	if late != nil {
		l.settleWhenEnded(a, decided, late)
	}
}

func (l *Limiter) settleWhenEnded(a asked, decided Decision, late *lateAnswer) {
	late.whenEnded(l.executor, func(answer []int64, err error) { l.settle(a, decided, answer, err) })
}

// settle does right by a grant that came too late for its caller, who was decided otherwise: it is given back, unless a caller who was
// admitted all the same has it.
func (l *Limiter) settle(a asked, decided Decision, answer []int64, err error) {
	if err != nil {
		return
	}
	granted, err := a.plan.afterTake(answer, a.cost, a.count+a.ahead)
	if err != nil {
		return
	}
	back := granted.Granted
	switch {
	case decided.Source != SourceLocal:
		back -= min(back, decided.Granted)
	case back == decided.Granted && l.local.forgive(a.keys, back, decided.receipt.atMicros):
		return
		// Else all of it goes back, and he owes what he has: a SlidingLog takes back a grant as a whole.
	}
	if back > 0 {
		l.reporter.lateRefunds.Add(1)
		_ = l.executor.undo(a.plan.refundOf(a.keys, answer, back))
		l.denials.clear(a.keys)
	}
}

// peek looks by the peek script of a plan.
func (l *Limiter) peek(ctx context.Context, a asked) (Decision, error) {
	a.cost, a.count = 0, 0
	answer, err := l.executor.call(ctx, l.config.timeout, order{script: a.plan.peek, keys: a.keys, args: a.plan.args})
	var d Decision
	if err == nil {
		d, err = a.plan.afterPeek(answer.own)
	}
	if isFailure(err) {
		return l.fallBack(ctx, a, err, nil), nil
	}
	return d, l.named(err)
}

// reset deletes what is stored, and what is counted here.
func (l *Limiter) reset(ctx context.Context, a asked) error {
	l.local.forget(a.keys)
	l.leases.forget(l, a)
	err := l.executor.delete(ctx, l.config.timeout, a.keys...)
	l.leases.forget(l, a) // what came meanwhile
	l.denials.clear(a.keys)
	return l.named(err)
}
