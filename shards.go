package ration

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// maxShards is the most shards of a limiter: as many as shardNames has.
const maxShards = len(shardNames)

// shardNames has a letter for each shard. It is the last of what is hashed of a stored key, and any two of them lead to
// different slots, whatever stands before.
const shardNames = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"

// WithShards splits the quota of each key over n shards, 1 to 64, each in a slot of its own, for a key that is too hot for one
// server of a Redis Cluster. 1 is not to split. Each shard has its share of the plan's units, and of its rate; remainders go
// to the first ones. A request asks one shard, by chance, and one more before it is denied: so a denial costs two round trips,
// and a denied request might have passed at a third shard. The shards together never grant more than the plan.
//
// Of a quota of 1,000 in 8 shards, with room for a burst of ten in each, at least 98 % are used where requests of one unit come to
// 1.2 times the quota. Nearer to it a key is now and then denied though some shard has room, by chance, and the more often the fewer
// units a shard has. A request cannot cost more than the smallest share, and AllowUpTo takes from one shard. The windows of a
// FixedWindow that is not Aligned open for each shard at its own time.
//
// Limit and Remaining of a [Decision] are those of the shard that decided, and RetryAfter is the lesser wait of the two
// that denied: a request then may be denied again. Peek sums up all shards, and Reset forgets them, by one call for each, at once.
// Another number of shards counts on with what the shards of the same names have counted, but for GCRA; while both numbers are in
// use, up to twice the quota may pass.
//
// Not for a [MultiPlan], nor for a FixedWindow with RestartOnDeny.
func WithShards(n int) LimiterOption {
	return limiterOption(func(c *limiterConfig) error {
		if n < 1 || n > maxShards {
			return fmt.Errorf("%w: WithShards: is %d: must be 1 to %d", ErrInvalidOption, n, maxShards)
		}
		c.shards = n
		return nil
	})
}

// split makes the shards of a plan ready: n > 1 plans that are together as large as the plan.
func (p *preparedPlan) split(n int) error {
	refuse := func(field, format string, args ...any) error {
		return &PlanError{Plan: p.text, Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	switch plan := p.plan.(type) {
	case MultiPlan:
		return refuse("", "cannot be split into shards: it is a MultiPlan")
	case FixedWindow:
		if plan.RestartOnDeny {
			return refuse("RestartOnDeny", "cannot be together with shards")
		}
	}
	if p.limit < int64(n) {
		return refuse("", "cannot be split into %d shards: it has %d units", n, p.limit)
	}
	whole := p.limit
	shards := make([]*preparedPlan, n)
	for i := range shards {
		units := whole / int64(n)
		if int64(i) < whole%int64(n) {
			units++
		}
		plan, ok := shardOf(p.plan, units, int64(n))
		if !ok {
			return refuse("Rate", "cannot be split into %d shards: it is too slow", n)
		}
		shard, err := prepare(plan)
		if err != nil {
			return fmt.Errorf("%w, when it is split into %d shards", err, n)
		}
		shard.text, shard.shard = p.text, shardNames[i:i+1]
		shards[i] = shard
	}
	p.shards, p.limit = shards, shards[n-1].limit
	return nil
}

// shardOf is the plan of one of n shards, with so many units. Nothing is answered where its rate would be too slow to write.
func shardOf(plan Plan, units, n int64) (shard Plan, ok bool) {
	rate := func(r Rate) Rate {
		if r.Units%n == 0 {
			return Rate{Units: r.Units / n, Per: r.Per}
		}
		if r.Per > math.MaxInt64/time.Duration(n) {
			return Rate{}
		}
		return Rate{Units: r.Units, Per: r.Per * time.Duration(n)}
	}
	switch p := plan.(type) {
	case FixedWindow:
		p.Limit = units
		return p, true
	case SlidingWindow:
		p.Limit = units
		return p, true
	case SlidingLog:
		p.Limit = units
		return p, true
	case TokenBucket:
		p.Burst, p.Rate = units, rate(p.Rate)
		return p, p.Rate != Rate{}
	case GCRA:
		p.Burst, p.Rate = units, rate(p.Rate)
		return p, p.Rate != Rate{}
	default:
		return nil, false
	}
}

// decideAtShards decides at one shard, and at one more if that denies, as far as the timeout lets it.
func (l *Limiter) decideAtShards(ctx context.Context, a asked) (Decision, error) {
	begin, timeout := nanos(), l.config.timeout
	n := len(a.plan.shards)
	first := rand.IntN(n)
	d, err := l.take(ctx, timeout, l.atShard(a, first))
	if err != nil || d.Allowed {
		return d, err
	}
	left := timeout - time.Duration(nanos()-begin)
	if left <= 0 {
		return d, nil
	}
	second := (first + 1 + rand.IntN(n-1)) % n
	other, err := l.take(ctx, left, l.atShard(a, second))
	if err != nil || other.Allowed || other.RetryAfter < d.RetryAfter {
		return other, err
	}
	return d, nil
}

// atShard is a request as one shard is asked it.
func (l *Limiter) atShard(a asked, i int) asked {
	a.plan = a.plan.shards[i]
	a.keys, a.hash = l.recent.stored(l.keys, a.plan, a.key)
	return a
}

// peekShards sums up what all shards say.
func (l *Limiter) peekShards(ctx context.Context, a asked) (Decision, error) {
	decisions := make([]Decision, len(a.plan.shards))
	err := atOnce(len(decisions), func(i int) (err error) {
		one := l.atShard(a, i)
		decisions[i], err = l.peek(ctx, one)
		decisions[i] = l.withHeld(one, decisions[i])
		return err
	})
	if err != nil {
		return Decision{}, err
	}
	sum := decisions[0]
	for _, d := range decisions[1:] {
		sum.Allowed = sum.Allowed || d.Allowed
		sum.Limit += d.Limit
		sum.Remaining += d.Remaining
		sum.RetryAfter = min(sum.RetryAfter, d.RetryAfter)
		sum.ResetAfter = max(sum.ResetAfter, d.ResetAfter)
		sum.degradeBy(d)
	}
	return sum, nil
}

// resetShards forgets what all shards have counted.
func (l *Limiter) resetShards(ctx context.Context, a asked) error {
	return atOnce(len(a.plan.shards), func(i int) error { return l.reset(ctx, l.atShard(a, i)) })
}
