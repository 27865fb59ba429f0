package ration

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// FailLocal decides in this process what Redis does not: each process of the fleet grants its share of the plan, the quota divided by
// the fleet's size. A key starts from its share of what Redis last said remains, if it was asked for lately, and else from that of the
// whole; so the fleet stays within the quota, up to the chance by which units that do not divide are given to some. When Redis is back,
// what was granted meanwhile is charged to it.
//
// A share below one unit is one now and then: of 3 a day, each of 10 processes grants one in three days out of ten, by chance. A
// request that costs more than the share is denied.
//
// A Client counts WithLocalKeys keys by itself at most. When that many are counted, and none is as good as new, further keys of a
// limiter are counted together, under one share: a flood of keys gets no allowance of its own.
func FailLocal() FailurePolicy { return failLocal{} }

type failLocal struct{}

func (failLocal) answer(f failed) Decision { return f.limiter.local.decide(f, true) }

// WithLocalKeys sets how many keys a Client remembers, and counts by itself while Redis does not answer: 1 to 1,000,000. Each takes
// about 80 bytes, and in an outage 200 more besides a long key, up to 5 kB of a SlidingLog. Unless set, it is 10,000.
func WithLocalKeys(n int) ClientOption {
	return clientOption(func(c *clientConfig) error {
		if n < 1 || n > 1_000_000 {
			return fmt.Errorf("%w: WithLocalKeys: is %d: must be 1 to 1000000", ErrInvalidOption, n)
		}
		c.localKeys = n
		return nil
	})
}

const defaultLocalKeys = 10_000

// WithFleetSize sets how many processes share a limiter's quota, 1 to 1,000,000, for what FailLocal grants before Redis has said how
// many there are: in an outage that was there before the process, or began within its first second. Unless set, it is 1: such a process
// grants the whole quota by itself.
func WithFleetSize(n int) Option {
	return option(func(c *limiterConfig) error {
		if n < 1 || n > 1_000_000 {
			return fmt.Errorf("%w: WithFleetSize: is %d: must be 1 to 1000000", ErrInvalidOption, n)
		}
		c.fleetSize = int64(n)
		return nil
	})
}

// local is what a Client counts by itself. It is safe for concurrent use.
type local struct {
	clock clock
	known knownKeys

	mu       sync.Mutex
	most     int
	entries  map[string]*localEntry // by stored key
	others   map[string]*localEntry // of keys that found no place, by what they are counted as together
	counted  atomic.Int64           // entries
	owing    atomic.Int64           // those that owe Redis something
	owers    map[string]struct{}    // their keys, and some that did
	isTended bool                   // a goroutine tends the entries
}

// localEntry is a key that is counted here.
type localEntry struct {
	key   string        // stored; empty: of keys that are counted together
	whole *preparedPlan // whose share is counted
	of    *shares       // of how many processes
	plan  *preparedPlan // the share; nil: too small to be counted
	twin  twin
	debt  int64 // units granted here, which Redis does not know of
	// beyond is what was granted in the window beyond what the plan of now has.
	beyond int64

	limiter *Limiter // that pays it; nil: of keys that are counted together
	payment *payment // that is on its way to Redis
	refusal error    // why Redis refused the last, or the last request; nil: it did not
	isPaid  bool     // Redis knows all of it
	// payAt is when a payment that Redis had no room for is tried again, in nanos, and payPause how long that is after the last.
	payAt    int64
	payPause time.Duration
	isHeld   bool // by a request that is being decided
	isOld    bool // Redis has decided since: what is counted here is of the outage before
}

func newLocal(most int, now clock) *local {
	return &local{
		clock:   now,
		known:   knownKeys{places[known]{most: most}},
		most:    most,
		entries: make(map[string]*localEntry),
		owers:   make(map[string]struct{}),
		others:  make(map[string]*localEntry),
	}
}

// fleetSize is how many processes share the quota, as far as known.
func (l *Limiter) fleetSize() int64 { return l.presence.fleetSize() }

// decide decides a request under the shares of all its plans. What is granted may be owed to Redis.
func (l *local) decide(f failed, isOwed bool) Decision {
	now := l.clock()
	parts := f.plan.each()
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := make([]*localEntry, len(parts))
	for i, one := range parts {
		entries[i] = l.entry(f.limiter, one, f.keys[i].(string), now)
		entries[i].isHeld = true
	}
	defer func() {
		for _, e := range entries {
			e.isHeld = false
		}
	}()
	request := localRequest{now, f.cost, f.count, f.upTo}
	if f.count == 0 {
		request.cost = 1 // a look says what a request for one unit would find
	}
	granted := request.fits(entries)
	d := Decision{
		Allowed:   granted > 0 || f.units() == 0 && f.count > 0,
		Granted:   granted * f.cost,
		Limit:     f.plan.limit,
		Remaining: f.plan.limit,
		Source:    SourceLocal,
		Cause:     f.cause,
		Plan:      f.plan.text,
		receipt:   receipt{atMicros: now},
	}
	for i, e := range entries {
		o := request.take(e, granted, len(entries) == 1)
		if d.Allowed || request.cost <= o.remaining {
			o.retryAfter = 0
		}
		d.Remaining = min(d.Remaining, o.remaining)
		d.RetryAfter = max(d.RetryAfter, o.retryAfter)
		d.ResetAfter = max(d.ResetAfter, o.resetAfter)
		if f.plan.parts != nil {
			d.Plans = append(d.Plans, PlanDecision{parts[i].name, parts[i].text, parts[i].limit, o.remaining, o.retryAfter, o.resetAfter})
		}
		if isOwed {
			e.noteRefusalLocked(f.cause)
			l.oweLocked(e, d.Granted)
		}
	}
	if d.Plans != nil {
		d.Plan = binding(d.Plans)
	}
	switch {
	case f.count == 0:
		d.Allowed = d.Remaining > 0
	case !d.Allowed && d.RetryAfter == 0:
		d.RetryAfter = retryAfterFailure
	}
	return d
}

// each are the plans of a MultiPlan, or the plan.
func (p *preparedPlan) each() []part {
	if p.parts != nil {
		return p.parts
	}
	return []part{{preparedPlan: p}}
}

// entry is that of a key under a plan, or of those that found no place.
func (l *local) entry(limiter *Limiter, one part, key string, now int64) *localEntry {
	n := limiter.fleetSize()
	if e := l.entries[key]; e != nil {
		if e.isOld {
			l.catchUpLocked(e, key, now)
		}
		e.renew(one.preparedPlan, n, now)
		return e
	}
	if len(l.entries) >= l.most {
		l.makePlaceLocked(now)
	}
	if len(l.entries) < l.most {
		e := newLocalEntry(limiter, one.preparedPlan, n, l.known.get(key), now)
		e.key = key
		l.entries[key] = e
		l.counted.Add(1)
		if executor := limiter.executor; !l.isTended {
			l.isTended = executor.inBackground(func() { l.tend(executor) })
		}
		return e
	}
	together := limiter.keys.head + "/" + one.name + ":" + one.text
	e := l.others[together]
	if e == nil && len(l.others) >= mostOthers {
		return &localEntry{whole: one.preparedPlan}
	}
	if e == nil {
		e = newLocalEntry(nil, one.preparedPlan, n, nil, now)
		l.others[together] = e
	}
	e.renew(one.preparedPlan, n, now)
	return e
}

// catchUpLocked has an entry that still owes something take note of what Redis has said since, which does not know of that.
func (l *local) catchUpLocked(e *localEntry, key string, now int64) {
	e.isOld = false
	known := l.known.get(key)
	if e.twin == nil || known == nil {
		return
	}
	plan, counts := e.of.twin(known, now)
	if e.isOver(now) {
		e.plan, e.twin, e.beyond = plan, counts, 0
		return
	}
	left := max(plan.outcome(counts.peekAt(now), 1).remaining-e.debt, 0)
	if gone := e.room(now) - left; gone > 0 {
		e.twin.takeAt(now, 1, gone, true)
	}
}

// mostOthers bounds the plans, each of a limiter, whose further keys are counted together. Those of others are denied.
const mostOthers = 1000

// makePlaceLocked looks at some keys, by chance, and forgets those that are as good as new, or that Redis was charged with.
func (l *local) makePlaceLocked(now int64) {
	looked := 0
	for key, e := range l.entries {
		if looked == looksForPlace {
			return
		}
		looked++
		if !e.isHeld && (e.isDone(now) || e.isPaid) {
			l.removeLocked(key)
		}
	}
}

func (l *local) removeLocked(key string) {
	delete(l.entries, key)
	l.counted.Add(-1)
}

// looksForPlace is how many keys are looked at to find a place for one more.
const looksForPlace = 64

// learn remembers what Redis answered to a take, for when it does not answer.
func (l *local) learn(a asked, answer []int64) {
	if a.plan.parts == nil {
		l.known.put(a.hash, a.plan, replyOf(answer), l.clock())
		return
	}
	rest := answer[1:]
	for i, one := range a.plan.parts {
		fields := one.take.fields - 1
		r := reply{answer[0]}
		copy(r[1:], rest[:fields])
		l.known.put(hashOf(a.keys[i].(string)), one.preparedPlan, r, l.clock())
		rest = rest[fields:]
	}
}

// forget forgets all there is of keys.
func (l *local) forget(keys []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		if e := l.entries[key.(string)]; e != nil {
			l.setDebtLocked(e, 0)
			l.removeLocked(key.(string))
		}
		l.known.forget(key.(string))
	}
}

func newLocalEntry(limiter *Limiter, whole *preparedPlan, n int64, known *known, now int64) *localEntry {
	e := &localEntry{limiter: limiter, whole: whole, of: whole.shares.of(whole, n)}
	e.plan, e.twin = e.of.twin(known, now)
	return e
}

// isRenewed says whether the share is another one now: of another plan, or of a fleet that became larger, at once; of a fleet that
// became smaller in a bucket, which has no more by that at first, and in a window when it is over, for those who have gone may have
// used their share of it. And in a window that is over the share is drawn anew.
func (e *localEntry) isRenewed(whole *preparedPlan, n, now int64) bool {
	s := e.of
	switch {
	case e.whole != whole || n > s.n || n < s.n && !s.perWindow:
		return true
	case n < s.n || s.perWindow && s.remainder > 0:
		return e.isOver(now)
	default:
		return false
	}
}

// renew goes on under another share where it is another one: in a window with what was granted, in a bucket with what is left.
func (e *localEntry) renew(whole *preparedPlan, n, now int64) {
	if !e.isRenewed(whole, n, now) {
		return
	}
	room, used, last := int64(math.MaxInt64), int64(0), reply{}
	switch {
	case e.twin == nil:
		room = 0
	case !e.isOver(now):
		room, last = e.room(now), e.twin.peekAt(now)
		used = e.plan.limit - room + e.beyond
	}
	s := whole.shares.of(whole, n)
	e.whole, e.of = whole, s
	var units int64
	e.plan, units = s.draw()
	e.beyond = 0
	free := min(room, units)
	if s.perWindow {
		free, e.beyond = max(units-used, 0), max(used-units, 0)
	}
	before := e.twin
	e.twin = s.twinFrom(e.plan, free, last, now)
	// The part of a token goes along, else a bucket whose plan changes all the time would earn nothing.
	old, _ := before.(*tokenBucketTwin)
	if bucket, ok := e.twin.(*tokenBucketTwin); ok && old != nil && bucket.stored {
		bucket.part = mulDiv(last[2], bucket.rate.den, old.rate.den)
	}
}

// isOver says that nothing that was counted matters any more.
func (e *localEntry) isOver(now int64) bool {
	return e.twin == nil || e.plan.outcome(e.twin.peekAt(now), 1).resetAfter == 0
}

// isDone says that an entry may be forgotten.
func (e *localEntry) isDone(now int64) bool { return e.debt == 0 && e.payment == nil && e.isOver(now) }

// localRequest is a request as the shares are asked it.
type localRequest struct {
	now, cost, count int64
	upTo             bool
}

// fits is how many of the requests fit under all shares.
func (r localRequest) fits(entries []*localEntry) int64 {
	granted := r.count
	for _, e := range entries {
		granted = min(granted, fit(e.room(r.now), r.cost, r.count))
	}
	return granted
}

// room is how many units could be taken now.
func (e *localEntry) room(now int64) int64 {
	if e.twin == nil {
		return 0
	}
	return e.plan.outcome(e.twin.peekAt(now), 1).remaining
}

// take takes what was granted from one share, and says what it is then to a request of the cost. The only share of a request is told
// of a denial, which may count.
func (r localRequest) take(e *localEntry, granted int64, only bool) outcome {
	switch {
	case e.twin == nil:
		return outcome{retryAfter: retryAfterFailure}
	case r.cost > e.plan.limit:
		o := e.plan.outcome(e.twin.peekAt(r.now), 1)
		o.retryAfter = max(o.resetAfter, retryAfterFailure)
		return o
	case r.count == 0:
		return e.plan.outcome(e.twin.peekAt(r.now), r.cost)
	case only:
		return e.plan.outcome(e.twin.takeAt(r.now, r.cost, r.count, r.upTo), r.cost)
	case granted > 0 || r.cost <= e.room(r.now):
		return e.plan.outcome(e.twin.takeAt(r.now, r.cost, granted, r.upTo), r.cost)
	default:
		return e.plan.outcome(e.twin.takeAt(r.now, r.cost, 1, r.upTo), r.cost) // which is denied, and says how long
	}
}
