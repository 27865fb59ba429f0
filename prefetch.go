package ration

import (
	"context"
	"fmt"
	"time"
)

// Prefetch is how units are taken ahead of need: one call takes some for the requests to come, which are then granted in this process
// without one, with [SourceLease]. How many follows demand, from none for a key that is asked for now and then, up to Max.
//
// Redis never grants more than the plan, to all processes together. What is held in processes is at most the fleet's size times Max for
// each key, and that is by how much more than the plan's bound may be admitted in some span of time, as units granted earlier are used in
// it; but for a [FixedWindow], whose leases end with their window, so that no window admits more than its Limit.
//
// What is not used goes back when the lease ends, and on Close; a process that is killed takes what it holds with it. Where less remains in
// Redis than the fleet's size times what would be taken, nothing is taken ahead, so that no process has to deny while others hold units.
// While others do, Remaining and denials are what Redis knows, without what they hold; and AllowUpTo takes either of what this process holds
// or of what Redis has.
//
// Not for requests under RestartOnDeny, those with Keys of their own, and those under a [MultiPlan] that has a plan PerTag, of which all
// keys of the tag would hold units.
type Prefetch struct {
	// Max is the most units that a process holds of one key: 1 to 10,000; WithShards of each shard its part of that. Where that is 1
	// nothing is taken ahead.
	Max int64
	// TTL is how long units are held at most: up to a minute; 0 is a second. It is never longer than a tenth of the plan's window, or of the
	// time to fill its bucket, but for a FixedWindow.
	TTL time.Duration
}

const (
	mostPrefetch = 10_000
	defaultLease = time.Second
	longestLease = time.Minute
)

// WithPrefetch has a limiter take units ahead of need. Unless set, it does not.
func WithPrefetch(p Prefetch) Option {
	return option(func(c *limiterConfig) error {
		switch {
		case p.Max < 1 || p.Max > mostPrefetch:
			return fmt.Errorf("%w: WithPrefetch: Max is %d: must be 1 to %d", ErrInvalidOption, p.Max, mostPrefetch)
		case p.TTL < 0 || p.TTL > longestLease:
			return fmt.Errorf("%w: WithPrefetch: TTL is %v: must be 0 to %v", ErrInvalidOption, p.TTL, longestLease)
		}
		if p.TTL == 0 {
			p.TTL = defaultLease
		}
		c.prefetch = p
		return nil
	})
}

// prefetcher grants from what this process holds, and takes ahead what it will need: a stage.
type prefetcher struct {
	*Limiter
	config Prefetch
	next   stage
}

func (s *prefetcher) take(ctx context.Context, timeout time.Duration, a asked) (Decision, error) {
	if a.keysApart || a.plan.denialCounts || a.plan.sharesTag {
		return s.next.take(ctx, timeout, a)
	}
	if err := orBackground(ctx).Err(); err != nil {
		return Decision{}, err
	}
	s.presence.use()
	// Before Redis decides under another plan, and perhaps changes what is stored, what is held under the first goes back.
	if l, all := s.leases.change(s.Limiter, a); len(all) > 0 {
		begin := nanos()
		s.leases.returnNow(ctx, timeout/2, l, all)
		timeout -= time.Duration(nanos() - begin)
	}
	if a.cost == 0 {
		d, err := s.next.take(ctx, timeout, a)
		return s.withHeld(a, d), err
	}
	if spent, refill, l := s.leases.spend(s, a, a.units()); spent.answer != nil {
		if refill > 0 {
			s.refill(a, l, refill)
		}
		return s.granted(a, spent, a.units())
	}
	begin := nanos()
	left := func() time.Duration { return timeout - time.Duration(nanos()-begin) }
	d, err := s.takeAhead(ctx, left(), a)
	if err != nil || d.Allowed || d.Source != SourceRedis {
		return d, err
	}
	// With what is held here it may fit: that goes back, and Redis is asked once more.
	if left() < timeout/2 || !s.leases.giveBack(ctx, left(), s.Limiter, a) || left() <= 0 {
		return d, nil
	}
	again, late, err := s.ask(ctx, left(), a)
	if err != nil { // the denial stands
		s.settleLate(a, Decision{}, late)
		return d, nil //nolint:nilerr // as above
	}
	return again, nil
}

// takeAhead asks Redis, and for some units more if that is of use.
func (s *prefetcher) takeAhead(ctx context.Context, timeout time.Duration, a asked) (d Decision, err error) {
	var l *lease
	a.ahead, l = s.leases.reserve(s, a)
	var answer []int64
	ahead, sentAt := int64(0), s.leases.clock()
	if l != nil {
		defer func() { s.leases.hold(s, a, l, answer, ahead, sentAt) }() // also if what is the user's ends the goroutine
	}
	d, err = s.next.take(ctx, timeout, a)
	if err != nil || d.Source != SourceRedis {
		return d, err
	}
	s.leases.remains(a, d.Remaining)
	if ahead = max(d.Granted-a.cost, 0); l == nil || ahead == 0 {
		return d, nil
	}
	answer = d.receipt.answer
	return s.granted(a, spending{answer: answer, later: ahead}, a.cost)
}

// refill takes units in the background, before those that are held are used up.
func (s *prefetcher) refill(a asked, l *lease, units int64) {
	a.cost, a.count, a.upTo = 1, units, false
	started := s.executor.inBackground(func() {
		sentAt := s.leases.clock()
		d, late, err := s.ask(context.Background(), s.Limiter.config.timeout, a)
		if err == nil {
			s.leases.remains(a, d.Remaining)
		}
		s.leases.hold(s, a, l, d.receipt.answer, d.Granted, sentAt)
		s.settleLate(a, Decision{}, late)
	})
	if !started {
		s.leases.hold(s, a, l, nil, 0, 0)
	}
}

// granted is the decision of a request for units of a grant of more.
func (s *prefetcher) granted(a asked, p spending, units int64) (Decision, error) {
	d, err := a.plan.decisionBefore(p.answer, p.later, units)
	if err != nil {
		return Decision{}, err
	}
	if p.isHeld {
		d.Source = SourceLease
		d.age(p.age)
	}
	d.receipt = receipt{limiter: s.Limiter, plan: a.plan, keys: a.keys, units: units, answer: p.answer, later: p.later}
	return d, nil
}

// withHeld is a look, with what is held here added to what remains in Redis.
func (l *Limiter) withHeld(a asked, d Decision) Decision {
	if d.Source != SourceRedis {
		return d
	}
	if held := l.leases.held(l, a); held > 0 {
		d.Remaining, d.Allowed, d.RetryAfter = min(d.Remaining+held, d.Limit), true, 0
		for i := range d.Plans {
			one := &d.Plans[i]
			one.Remaining, one.RetryAfter = min(one.Remaining+held, one.Limit), 0
		}
	}
	return d
}

// leaseTTL is how long units of a plan are held at most.
func (s *prefetcher) leaseTTL(plan *preparedPlan) time.Duration {
	ttl := s.config.TTL
	for _, one := range plan.each() {
		if _, isWindow := one.plan.(FixedWindow); !isWindow {
			ttl = min(ttl, one.lasts/leaseShare)
		}
	}
	return ttl
}

// leaseShare is what part of a plan's time units are held at most.
const leaseShare = 10

// leaseSpan is how long what was granted may be held, and whether it cannot be given back then: a FixedWindow's until its window is over.
func (s *prefetcher) leaseSpan(plan *preparedPlan, answer []int64) (span time.Duration, isFinal bool) {
	span = s.leaseTTL(plan)
	if answer == nil {
		return 0, false
	}
	if _, isWindow := plan.plan.(FixedWindow); isWindow {
		left := windowLeft(plan, replyOf(answer))
		return min(span, left), left <= span
	}
	rest := answer[1:]
	for _, one := range plan.parts {
		fields := one.take.fields - 1
		if _, isWindow := one.plan.(FixedWindow); isWindow {
			r := reply{answer[0]}
			copy(r[1:], rest[:fields])
			span = min(span, windowLeft(one.preparedPlan, r))
		}
		rest = rest[fields:]
	}
	return span, false
}

// windowLeft is how long the window of a reply lasts at least: it says that in milliseconds, counted from the one in which it was made.
func windowLeft(plan *preparedPlan, r reply) time.Duration {
	return max(plan.outcome(r, 1).resetAfter-time.Millisecond, 0)
}
