package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// peer is a rate limiter that is measured beside others.
type peer struct {
	name  string
	about string // what it is, in half a sentence
	// open makes a limiter that counts in Redis, through the client given where it can.
	open func(rdb *redis.Client, q quota) (limiter, error)
}

// limiter is a peer with a quota to keep.
type limiter struct {
	// allow answers: may this key take one unit?
	allow func(ctx context.Context, key string) (bool, error)
	// close gives back what open took; nil where that is nothing.
	close func()
}

// quota is what a key may take, in words that all algorithms understand.
type quota struct {
	units  int64         // at once, or in one window
	refill time.Duration // until one unit is back, of buckets
	window time.Duration // how long a window lasts, of windows
}

// peers are those that are measured, in the order in which they are shown. The baseline is among them. Of the raw ones, two
// stand for all: one with a reply of a single integer, and one with several.
func peers() []peer {
	return append(ours(), rawOf(gcra()), rawOf(tokenBucket()), redisRate())
}

// baseline is the name of the peer in whose multiples all figures are.
const baseline = "redis_rate"

// opened makes a limiter on a redis client of its own. Whoever opens it closes it.
func (p peer) opened(o *redis.Options, q quota) (limiter, error) {
	rdb := redis.NewClient(o)
	l, err := p.open(rdb, q)
	if err != nil {
		_ = rdb.Close()
		return limiter{}, fmt.Errorf("%s: %w", p.name, err)
	}
	closePeer := l.close
	l.close = func() {
		if closePeer != nil {
			closePeer()
		}
		_ = rdb.Close()
	}
	return l, nil
}
