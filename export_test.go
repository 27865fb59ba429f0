package ration

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// Twin is a plan's double in this process, for tests outside the package.
type Twin struct {
	prepared *preparedPlan
	twin     twin
}

// NewTwin makes the twin of a plan, for one key.
func NewTwin(plan Plan) (*Twin, error) {
	prepared, err := prepare(plan)
	if err != nil {
		return nil, err
	}
	return &Twin{prepared: prepared, twin: prepared.newTwin()}, nil
}

// TakeAt decides as Limiter.take does.
func (t *Twin) TakeAt(nowMicros, cost, count int64, upTo bool) Decision {
	r := t.twin.takeAt(nowMicros, cost, count, upTo)
	d, err := t.prepared.afterTake(r[:], cost, count)
	if err != nil {
		panic(err)
	}
	d.receipt = receipt{plan: t.prepared, units: d.Granted, answer: r[:]}
	return d
}

// RefundAt gives back what TakeAt granted.
func (t *Twin) RefundAt(nowMicros int64, d Decision) {
	t.twin.refundAt(nowMicros, replyOf(d.receipt.answer), d.receipt.units)
}

// Limit is the greatest cost that the plan can admit.
func (t *Twin) Limit() int64 { return t.prepared.limit }

// PeekAt decides as Limiter.Peek does.
func (t *Twin) PeekAt(nowMicros int64) Decision {
	r := t.twin.peekAt(nowMicros)
	d, err := t.prepared.afterPeek(r[:])
	if err != nil {
		panic(err)
	}
	return d
}

// Slot is the slot of a stored key.
func Slot(key string) uint16 { return slot(key) }

// StoredKey is where a limiter keeps the state of a key.
func (l *Limiter) StoredKey(key string) string { return l.keys.stored(l.plan, key) }

// RecentKey is StoredKey under a plan, as it is built or remembered.
func (l *Limiter) RecentKey(plan Plan, key string) (remembered, built string) {
	prepared, err := l.plans.prepare(plan)
	if err != nil {
		panic(err)
	}
	stored, _ := l.recent.stored(l.keys, prepared, key)
	return stored[0].(string), l.keys.stored(prepared, key)
}

// TakeCount decides `count` requests of `cost` units each under a plan, as the parts of the package that merge requests do.
func (l *Limiter) TakeCount(ctx context.Context, key string, plan Plan, cost, count int64) (Decision, error) {
	prepared, err := prepare(plan)
	if err != nil {
		return Decision{}, err
	}
	keys, hash := l.recent.stored(l.keys, prepared, key)
	return l.take(ctx, l.config.timeout, asked{plan: prepared, key: key, keys: keys, hash: hash, cost: cost, count: count})
}

// NewUnregistered makes a limiter that the client does not remember, for tests that make very many.
func NewUnregistered(c *Client, name string, plan Plan) (*Limiter, error) {
	prepared, err := prepare(plan)
	if err != nil {
		return nil, err
	}
	return c.bind(name, prepared, c.limiter), nil
}

// Exact is a rate as it is counted, num/den units a microsecond.
func Exact(r Rate) (num, den int64, err error) {
	rate, wrong := r.exact()
	if wrong != "" {
		return 0, 0, errors.New(wrong)
	}
	return rate.num, rate.den, nil
}

// Prepare prepares a plan as that of a request is, and gives its limit.
func (l *Limiter) Prepare(plan Plan) (limit int64, err error) {
	prepared, err := l.plans.prepare(plan)
	if err != nil {
		return 0, err
	}
	return prepared.limit, nil
}

// CachedPlans is how many prepared plans are kept.
func (l *Limiter) CachedPlans() int {
	l.plans.mu.RLock()
	defer l.plans.mu.RUnlock()
	return len(l.plans.prepared)
}

// Script is a script as it is embedded.
type Script struct {
	Name, Source, Digest string
	Fields               int
}

// Scripts are all scripts, by name.
func Scripts() []Script {
	var all []Script
	for _, s := range []script{
		fixedWindowMany, fixedWindowPeek, fixedWindowRefund, fixedWindowTake, fleetBeat,
		gcraMany, gcraOne, gcraPeek, gcraRefund, gcraTake, multiPlanPeek, multiPlanRefund, multiPlanTake,
		slidingLogPeek, slidingLogRefund, slidingLogTake,
		slidingWindowMany, slidingWindowPeek, slidingWindowRefund, slidingWindowTake,
		tokenBucketMany, tokenBucketPeek, tokenBucketRefund, tokenBucketTake,
	} {
		all = append(all, Script{s.name, *s.source, s.digest.(string), s.fields})
	}
	return all
}

// ScriptArguments is how many arguments a plan's script is given.
func ScriptArguments(plan Plan, verb string) (int, error) {
	prepared, err := prepare(plan)
	if err != nil {
		return 0, err
	}
	switch verb {
	case "peek":
		return len(prepared.args), nil
	case "refund":
		return len(prepared.taken(reply{}, 1)) + len(prepared.argsRefund), nil
	case "one":
		return len([]string{"cost"}) + len(prepared.args), nil
	case "many":
		return len([]string{"cost", "counts"}) + len(prepared.args), nil
	default:
		return len([]string{"cost", "count"}) + len(prepared.args), nil
	}
}

// AfterTake is what an answer of the take script means.
func AfterTake(plan Plan, answer []int64, cost, count int64) (Decision, error) {
	prepared, err := prepare(plan)
	if err != nil {
		return Decision{}, err
	}
	return prepared.afterTake(answer, cost, count)
}

// ShardKeys are where the shards of a limiter keep the state of a key.
func (l *Limiter) ShardKeys(key string) []string {
	var all []string
	for _, shard := range l.plan.shards {
		all = append(all, l.keys.stored(shard, key))
	}
	return all
}

// ShardsOf are the plans of n shards.
func ShardsOf(plan Plan, n int) ([]Plan, error) {
	p, err := prepareInShards(plan, n)
	if err != nil {
		return nil, err
	}
	var all []Plan
	for _, shard := range p.shards {
		all = append(all, shard.plan)
	}
	return all, nil
}

// Earned is what a bucket earns in a time, as what it owes is counted.
func Earned(plan Plan, span time.Duration) int64 {
	prepared, err := prepare(plan)
	if err != nil {
		panic(err)
	}
	return prepared.earned(span)
}

// ArgumentsOfDebt are the plan's numbers as a debt is charged with them.
func ArgumentsOfDebt(plan Plan) (args []any, err error) {
	prepared, err := prepare(plan)
	if err != nil {
		return nil, err
	}
	return prepared.argsOfDebt, nil
}

// CountedFor is for how long after its use the processes of a limiter are counted.
func CountedFor(plan Plan) time.Duration {
	prepared, err := prepare(plan)
	if err != nil {
		panic(err)
	}
	return prepared.matters()
}

// MostFlying is how many flushes are on their way before calls wait for each other.
const MostFlying = mostFlying

// Queued is how many calls of a client wait for a flush.
func Queued(c *Client) int {
	b := c.executor.lanes.one.batcher
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue.n
}

// WithoutReceipt is what a decision shows.
func WithoutReceipt(d Decision) Decision {
	d.receipt = receipt{}
	return d
}

// LookAt is what remains of a key of a limiter, by another client.
func LookAt(c *Client, l *Limiter, key string) (remaining int64, err error) {
	d, err := c.bind(l.name, l.plan, l.config).Peek(context.Background(), key)
	return d.Remaining, err
}

// RememberedDenials is how many denials a client remembers that hold.
func RememberedDenials(c *Client) int { return c.denials.places.count(c.denials.clock()) }

// RememberDenial remembers a denial of a request for one unit of a key, as if Redis had told it.
func RememberDenial(c *Client, key string, plan Plan, wait time.Duration) error {
	prepared, err := rememberedPlans.prepare(plan)
	if err != nil {
		return err
	}
	a := asked{plan: prepared, key: key, keys: []any{key}, hash: hashOf(key), cost: 1, count: 1}
	now := c.denials.clock()
	d := Decision{RetryAfter: wait, receipt: receipt{answer: []int64{0, prepared.unit, now}}}
	c.denials.put(a, d, now, c.denials.eraOf(a), time.Hour)
	return nil
}

var rememberedPlans planCache

// ByLimiter is a decision as if another limiter that counts the same had made it.
func ByLimiter(d Decision, l *Limiter) Decision {
	d.receipt.limiter = l
	return d
}

// AwaitLeases waits until no units are on their way, to be held or given back.
func AwaitLeases(c *Client) {
	for c.leases.isBusy() {
		runtime.Gosched()
	}
}

func (s *leases) isBusy() bool {
	s.backlog.mu.Lock()
	isReturning := s.backlog.workers > 0
	s.backlog.mu.Unlock()
	if isReturning {
		return true
	}
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.Lock()
		for _, l := range shard.byHash {
			if l.pending > 0 {
				shard.mu.Unlock()
				return true
			}
		}
		shard.mu.Unlock()
	}
	return false
}

// Reserve is how many requests a limiter would ask for beside one for one unit of a key, of which enough is held.
func Reserve(l *Limiter, key string) int64 {
	keys, hash := l.recent.stored(l.keys, l.plan, key)
	a := asked{plan: l.plan, key: key, keys: keys, hash: hash, cost: 1, count: 1}
	p := &prefetcher{Limiter: l, config: l.config.prefetch}
	for range 20 {
		l.leases.sizeOf(p, a, l.leases.clock())
	}
	requests, one := l.leases.reserve(p, a)
	if one != nil {
		l.leases.hold(p, a, one, nil, 0, 0)
	}
	return requests
}
