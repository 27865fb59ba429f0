package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// peer is a rate limiter that is measured beside others.
type peer struct {
	name  string
	about string // what it is, in half a sentence
	// open makes a limiter that counts in Redis, through the client given where it can.
	open func(rdb redis.UniversalClient, q quota) (limiter, error)
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

// peers are those that are measured, in the order in which they are shown. The baseline is among them.
func peers() []peer {
	all := append(asUsed(), ours()[1:]...)
	all = append(all, rawOf(gcra()))
	all = append(all, others()...)
	return append(all, redisRate())
}

// some are the peers of these names, in the order in which they are measured.
func some(names ...string) (found []peer) {
	for _, p := range peers() {
		if slices.Contains(names, p.name) {
			found = append(found, p)
		}
	}
	return found
}

// baseline is the name of the peer in whose multiples all figures are.
const baseline = "redis_rate"

// baseOf is where the baseline is among peers.
func baseOf(all []peer) int {
	return slices.IndexFunc(all, func(p peer) bool { return p.name == baseline })
}

// opened makes a limiter on a redis client of its own. Whoever opens it closes it.
func (p peer) opened(o *redis.Options, q quota) (limiter, error) {
	return p.openedOn(redis.NewClient(o), q)
}

// openedOn makes a limiter on a redis client, which is closed with it.
func (p peer) openedOn(rdb redis.UniversalClient, q quota) (limiter, error) {
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
