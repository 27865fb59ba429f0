package ration

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// WithDenyCache sets for how long at most a denial by Redis is remembered in this process: until it would be granted, but no longer than
// this, requests for the same key and plan that cost as much or more are denied without a call, with [SourceDenyCache]. Unless set, it is a
// second; up to an hour; 0 turns it off. Denials under RestartOnDeny, which count, are not remembered.
//
// What makes a denial wrong earlier shows at once if this process did it by Refund, Reset or another plan for the key, and so late at most
// if another did. Remaining, of such a decision, is what Redis last said; and of a SlidingLog RetryAfter is that of the cost that was
// denied, a lower bound for a greater one.
//
// A Client remembers as many denials as WithLocalKeys says, in about 150 bytes each; when there are more, those that end first are
// forgotten, and Redis is asked.
func WithDenyCache(longest time.Duration) Option {
	return option(func(c *limiterConfig) error {
		if longest < 0 || longest > longestDenial {
			return fmt.Errorf("%w: WithDenyCache: is %v: must be 0 to %v", ErrInvalidOption, longest, longestDenial)
		}
		c.denyCache = longest
		return nil
	})
}

const (
	defaultDenial = time.Second
	longestDenial = time.Hour
)

// denials are what a Client remembers of requests that Redis has denied. It is safe for concurrent use.
type denials struct {
	clock  clock
	places places[denial]
	// eras count what was given back to the keys of a hash, so that a denial from before is not believed.
	eras [1024]atomic.Uint64
}

// denial is a request that Redis has denied.
type denial struct {
	plan    *preparedPlan
	cost    int64
	era     uint64 // of its keys, when it was sent
	heardAt int64  // when it was answered, microseconds
	until   int64  // microseconds
	answer  []int64
}

func newDenials(most int, now clock) *denials {
	return &denials{clock: now, places: places[denial]{most: most}}
}

// leastCost is the cost that is denied when the request is.
func (a asked) leastCost() int64 {
	if a.upTo {
		return 1
	}
	return a.cost
}

// put remembers a denial by Redis, until a moment at most. It holds for as long as Redis said from when it was sent, which is before Redis
// decided it.
func (c *denials) put(a asked, d Decision, sentAt int64, era uint64, longest time.Duration) {
	one := denial{plan: a.plan, cost: a.leastCost(), era: era, heardAt: c.clock(), answer: slices.Clone(d.receipt.answer)}
	one.until = sentAt + int64(min(d.RetryAfter, longest)/time.Microsecond)
	if one.until <= one.heardAt {
		return
	}
	last, found := c.places.get(a.hash)
	if found && last.plan.isSame(one.plan) && last.cost <= one.cost && last.until >= one.until && last.era == c.eraOf(a) {
		return // which denies this one too
	}
	c.places.put(a.hash, one.until, one)
}

// eraOf is another one after something was given back to one of the keys of a request.
func (c *denials) eraOf(a asked) (era uint64) {
	if len(a.keys) == 1 {
		return c.era(a.hash).Load()
	}
	for _, key := range a.keys {
		era += c.era(hashOf(key.(string))).Load()
	}
	return era
}

func (c *denials) era(hash uint64) *atomic.Uint64 { return &c.eras[hash%uint64(len(c.eras))] }

// clear forgets the denials of keys, for something was given back.
func (c *denials) clear(keys []any) {
	for _, key := range keys {
		c.era(hashOf(key.(string))).Add(1)
	}
}

// find is the decision of a request that was denied before. A request that is not, under another plan or of a lesser cost, may change what
// is stored, so that what is known of the key is forgotten.
func (c *denials) find(a asked) (d Decision, found bool) {
	one, found := c.places.get(a.hash)
	if !found {
		return Decision{}, false
	}
	now := c.clock()
	if one.plan.isSame(a.plan) && a.leastCost() >= one.cost && now < one.until && one.era == c.eraOf(a) {
		if d, err := a.plan.afterTake(one.answer, a.leastCost(), 1); err == nil {
			d.Source = SourceDenyCache
			d.age(micros(now - one.heardAt))
			return d, true
		}
	}
	c.places.forget(a.hash)
	return Decision{}, false
}

// look forgets what is known of a key under another plan than that of a look.
func (c *denials) look(a asked) {
	if one, found := c.places.get(a.hash); found && !one.plan.isSame(a.plan) {
		c.places.forget(a.hash)
	}
}

// age has the waits of a decision be those of a time later.
func (d *Decision) age(by time.Duration) {
	d.RetryAfter, d.ResetAfter = max(d.RetryAfter-by, 0), max(d.ResetAfter-by, 0)
	for i := range d.Plans {
		one := &d.Plans[i]
		one.RetryAfter, one.ResetAfter = max(one.RetryAfter-by, 0), max(one.ResetAfter-by, 0)
	}
}

// denyCache denies what Redis has denied before.
type denyCache struct {
	denials *denials
	longest time.Duration
	next    stage
}

func (s *denyCache) take(ctx context.Context, timeout time.Duration, a asked) (Decision, error) {
	if a.cost == 0 {
		s.denials.look(a)
		return s.next.take(ctx, timeout, a)
	}
	if err := orBackground(ctx).Err(); err != nil {
		return Decision{}, err
	}
	if d, found := s.denials.find(a); found {
		return d, nil
	}
	sentAt, era := s.denials.clock(), s.denials.eraOf(a)
	d, err := s.next.take(ctx, timeout, a)
	if err == nil && !d.Allowed && d.Source == SourceRedis && !a.plan.denialCounts {
		s.denials.put(a, d, sentAt, era, s.longest)
	}
	return d, err
}
