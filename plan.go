package ration

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Plan is what is allowed: an algorithm with its numbers. It is one of this package's plain comparable structs, by value, or a
// list of them; nothing else is accepted. By what they are for:
//
//   - [FixedWindow]: the cheapest; a quota per calendar minute, hour or day; attempts to log in
//   - [SlidingWindow]: as even as a window gets in constant memory
//   - [SlidingLog]: a bound on any window, to the unit, for memory
//   - [TokenBucket]: a steady rate with bursts, whose level survives a change of the plan
//   - [GCRA]: the same admissions as TokenBucket, in the least time and memory
//   - [MultiPlan]: several of these at once, all or nothing
type Plan interface {
	// String is the plan as ParsePlan reads it: "token-bucket 100/s burst 20".
	String() string

	// prepare checks the plan's numbers and makes what its decisions need.
	prepare() (*preparedPlan, error)
}

// preparedPlan is a plan made ready for many decisions. It is immutable and shared.
type preparedPlan struct {
	plan    Plan
	text    string        // plan.String()
	kind    string        // of the stored key: algorithm and layout version, "tb1"
	numbers string        // in the stored key, of a plan whose state has a meaning only under its numbers
	limit   int64         // the greatest cost that can ever pass, units
	unit    int64         // what the scripts count a unit as
	lasts   time.Duration // the window, or the time to fill the bucket

	take, peek, refund *script
	one                *script // take for one request, where that has a script of its own
	many               *script // take for several keys, where there is one
	// args are the plan's numbers for the scripts that take and peek, boxed once. argsUpTo are those where one request takes
	// what fits, and argsRefund those for the script that gives back.
	args, argsUpTo, argsRefund []any
	// argsOfDebt are those where what was granted without Redis is charged; as argsUpTo unless the plan says otherwise.
	argsOfDebt []any
	costOfOne  any // the script's cost of a request for one unit, boxed once
	// argsOfOne are the plan's kind and numbers for the scripts of several plans.
	argsOfOne []any
	// denialCounts says that a denial changes what is stored, so that each request is asked for by itself.
	denialCounts bool
	sharesTag    bool   // some of its parts count for a whole hash tag
	parts        []part // of a MultiPlan, which has no algorithm of its own
	shares       shareCache
	// shards are what a plan that is split decides by, and shard is the name of one of them.
	shards []*preparedPlan
	shard  string

	algorithm
}

// algorithm is what differs between plans besides their numbers and scripts.
type algorithm interface {
	// plausible says whether the numbers of a reply behind the first can be; those of a key that something else wrote
	// to need not.
	plausible(r reply) bool

	// outcome derives an answer from a plausible reply of the plan's scripts, to requests of `cost` units each.
	outcome(r reply, cost int64) outcome

	// before is a reply to a grant, had the last of its units, so many, been granted later.
	before(r reply, units int64) reply

	// taken is what the refund script is told of a grant of so many units, by the reply to it.
	taken(r reply, units int64) []any

	// newTwin makes the plan's double in this process, for one key.
	newTwin() twin

	// twinFrom makes one that has so many units free as of a moment, at most the plan's; what else is to be known of the past, such
	// as when the window ends, a reply says that was made at the moment, to this plan or to one that it is a share of.
	twinFrom(free int64, r reply, atMicros int64) twin
}

// reply holds what a script answers, in the order of its header: the granted requests, the remaining units, and what else
// the plan sends.
type reply [6]int64

func replyOf(answer []int64) (r reply) {
	copy(r[:], answer)
	return r
}

// outcome is what a reply means.
type outcome struct {
	remaining  int64
	retryAfter time.Duration // until a request of the same cost passes; meaningful if one was denied
	resetAfter time.Duration
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// cost is what a script is given for a cost of so many units.
func (p *preparedPlan) cost(units int64) any {
	if units == 1 {
		return p.costOfOne
	}
	return units * p.unit
}

// afterTake is what a take script's answer means to `count` requests of `cost` units each. One that cannot be is refused.
func (p *preparedPlan) afterTake(answer []int64, cost, count int64) (Decision, error) {
	if p.parts != nil {
		return p.afterTakeOfAll(answer, cost, count)
	}
	r := replyOf(answer)
	d, err := p.decision(r, cost, count)
	if err == nil && r[0] > 0 {
		d.Allowed, d.RetryAfter = true, 0
	}
	return d, err
}

// afterPeek is what a peek script's answer means to a request for one unit. One that cannot be is refused.
func (p *preparedPlan) afterPeek(answer []int64) (Decision, error) {
	if p.parts != nil {
		return p.afterPeekOfAll(answer)
	}
	d, err := p.decision(replyOf(answer), 1, 0)
	if d.Remaining > 0 {
		d.Allowed, d.RetryAfter = true, 0
	}
	return d, err
}

// decision is what a reply of Redis says of the state that `count` requests, of `cost` units each, left.
func (p *preparedPlan) decision(r reply, cost, count int64) (Decision, error) {
	granted := r[0]
	o, plausible := p.outcomeOf(r, cost, count)
	if !plausible || granted == 0 && count > 0 && o.retryAfter == 0 {
		return Decision{}, p.implausible(r)
	}
	return Decision{
		Granted:    granted * cost,
		Limit:      p.limit,
		Remaining:  o.remaining,
		RetryAfter: o.retryAfter,
		ResetAfter: o.resetAfter,
		Source:     SourceRedis,
		Plan:       p.text,
	}, nil
}

// outcomeOf is what a reply to `count` requests of `cost` units each means, and whether it can be.
func (p *preparedPlan) outcomeOf(r reply, cost, count int64) (o outcome, plausible bool) {
	granted := r[0]
	if granted < 0 || granted > count || !p.plausible(r) {
		return outcome{}, false
	}
	o = p.outcome(r, cost)
	return o, granted*cost+o.remaining <= p.limit
}

// costError is the error of a cost above the plan's limit. Of a MultiPlan it names the plan that limits most.
func (p *preparedPlan) costError(cost int64) error {
	text := p.text
	if p.shards != nil {
		text = fmt.Sprintf("one of the %d shards of %s", len(p.shards), p.text)
	}
	for _, one := range p.parts {
		if one.limit == p.limit {
			text = one.name + ": " + one.text
			break
		}
	}
	return &CostError{Plan: text, Cost: cost, Limit: p.limit}
}

// implausible is the error of a reply that cannot be.
func (p *preparedPlan) implausible(r reply) error {
	return unavailable(fmt.Errorf("the key holds what no %s can have left: the reply is %d", p.text, r))
}

// takenBy is what the refund script is told of a grant of so many units, by the answer to it.
func (p *preparedPlan) takenBy(answer []int64, units int64) []any {
	if p.parts != nil {
		return p.takenOfAll(answer, units)
	}
	return p.taken(replyOf(answer), units)
}

// isSame says whether two plans are one: of shards, which have the text of the whole plan, also by how large they are.
func (p *preparedPlan) isSame(other *preparedPlan) bool {
	return p == other || p.text == other.text && p.limit == other.limit
}

// refundOf gives back so many units of a grant, by the answer to it.
func (p *preparedPlan) refundOf(keys []any, answer []int64, units int64) order {
	return order{script: p.refund, keys: keys, lead: p.takenBy(answer, units), args: p.argsRefund}
}

// answerOf is what the script would have answered to the nth, from 0, of the takes of `cost` units each that it was asked to grant
// together, had they come one by one.
func (p *preparedPlan) answerOf(answer []int64, cost, nth int64) []int64 {
	if granted := answer[0]; nth < granted {
		return p.answerBefore(answer, (granted-1-nth)*cost)
	}
	denied := slices.Clone(answer)
	denied[0] = 0
	return denied
}

// answerBefore is what the script would have answered to one take of several that it granted, had the last of their units been granted
// later than that.
func (p *preparedPlan) answerBefore(answer []int64, units int64) []int64 {
	own := slices.Clone(answer)
	own[0] = 1
	if p.parts == nil {
		r := p.before(replyOf(own), units)
		copy(own, r[:])
		return own
	}
	state := own[1:]
	for _, one := range p.parts {
		fields := one.take.fields - 1
		r := reply{1}
		copy(r[1:], state[:fields])
		r = one.before(r, units)
		copy(state[:fields], r[1:])
		state = state[fields:]
	}
	return own
}

// decisionBefore is the decision of one take of `cost` units, of several that were granted, had the last of their units been granted later.
func (p *preparedPlan) decisionBefore(answer []int64, units, cost int64) (Decision, error) {
	if p.parts != nil {
		return p.afterTakeOfAll(p.answerBefore(answer, units), cost, 1)
	}
	r := replyOf(answer)
	r[0] = 1
	d, err := p.decision(p.before(r, units), cost, 1)
	if err == nil {
		d.Allowed, d.RetryAfter = true, 0
	}
	return d, err
}

// twin decides as the plan's script does, with the same arithmetic, for one key in this process.
type twin interface {
	// takeAt grants as many of `count` requests of `cost` units each as fit, and replies as the take script does. upTo
	// says that the requests are one that takes what fits.
	takeAt(nowMicros, cost, count int64, upTo bool) reply
	// peekAt replies as the peek script does.
	peekAt(nowMicros int64) reply
	// refundAt gives back the units of a grant, by the reply to it, and says how many, as the refund script does.
	refundAt(nowMicros int64, r reply, units int64) int64
}

// isOurs says whether a plan is one of this package's, by value: a pointer may be nil or change, and so may what embeds a
// plan.
func isOurs(plan Plan) bool {
	switch plan.(type) {
	case FixedWindow, SlidingWindow, SlidingLog, TokenBucket, GCRA, MultiPlan:
		return true
	default:
		return false
	}
}

// prepare makes a plan ready, or says what is wrong with it.
func prepare(plan Plan) (*preparedPlan, error) {
	switch {
	case plan == nil:
		return nil, &PlanError{Plan: "plan", Reason: "is nil"}
	case !isOurs(plan):
		return nil, &PlanError{Plan: fmt.Sprintf("plan of type %T", plan), Reason: "is not one of this package's plans, by value"}
	}
	p, err := plan.prepare()
	if err != nil {
		return nil, err
	}
	if p.parts != nil {
		return p, nil
	}
	if p.argsOfDebt == nil {
		p.argsOfDebt = p.argsUpTo
	}
	p.argsOfOne = append([]any{p.kind[:2]}, p.args...)
	if p.unit == 0 {
		p.unit = 1
	} else {
		p.argsOfOne = append(p.argsOfOne, p.unit)
	}
	p.costOfOne, p.lasts = p.unit, lasts(plan)
	return p, nil
}

// lasts is for how long what is granted under a plan matters at most: its window, or the time to fill its bucket.
func lasts(plan Plan) time.Duration {
	switch p := plan.(type) {
	case FixedWindow:
		return p.Window
	case SlidingWindow:
		return p.Window
	case SlidingLog:
		return p.Window
	case TokenBucket:
		return p.Rate.timeFor(p.Burst)
	case GCRA:
		return p.Rate.timeFor(p.Burst)
	default:
		return 0
	}
}

// prepareInShards makes a plan ready, split into shards if they are more than one.
func prepareInShards(plan Plan, shards int) (*preparedPlan, error) {
	p, err := prepare(plan)
	if err == nil && shards > 1 {
		err = p.split(shards)
	}
	return p, err
}

// planCache keeps the prepared plans of the keys that have their own, so that a decision need not prepare one. A flood of
// different plans cannot grow it: a full cache forgets some plan for each new one.
type planCache struct {
	shards   int // into which plans are split; 0 and 1: they are not
	mu       sync.RWMutex
	prepared map[Plan]*preparedPlan
}

const maxCachedPlans = 1024

func (c *planCache) prepare(plan Plan) (*preparedPlan, error) {
	if all, isMulti := plan.(MultiPlan); isMulti {
		return all.prepareEach(c.prepare)
	}
	if isOurs(plan) { // comparable, so that the lookup cannot panic
		c.mu.RLock()
		p := c.prepared[plan]
		c.mu.RUnlock()
		if p != nil {
			return p, nil
		}
	}
	p, err := prepareInShards(plan, c.shards)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.prepared) >= maxCachedPlans {
		for some := range c.prepared {
			delete(c.prepared, some)
			break
		}
	}
	if c.prepared == nil {
		c.prepared = make(map[Plan]*preparedPlan)
	}
	c.prepared[plan] = p
	return p, nil
}
