// Package fleet offers a quota more requests than it allows, from many instances of a service at once, and counts whom they
// let through.
package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration"
)

// Config says what a Fleet does.
type Config struct {
	Instances int // 1 to 1000
	Plan      ration.Plan
	Load      float64       // requests offered by the whole fleet, as a multiple of the plan's rate: more than 0
	Duration  time.Duration // for how long requests are offered: more than 0, at most an hour
	Timeout   time.Duration // of a decision: more than 0
	Key       string        // whom the quota is charged to; each Fleet has it afresh
	NewRedis  func() redis.UniversalClient
}

const (
	maxInstances = 1000
	maxDuration  = time.Hour
	// maxOffers keeps the audit of a run, whose time grows with the square of the admissions, to seconds.
	maxOffers = 20_000
)

// Fleet is instances of a service in one process. Each has a redis client and a ration.Client of its own, so that they
// share no more than processes do: what is in Redis.
type Fleet struct {
	config    Config
	rate      float64 // of the plan, units a second
	offers    int64   // planned
	key       string
	instances []*instance
}

// New makes a Fleet. It does no I/O. Whoever makes it closes it.
func New(config Config) (*Fleet, error) {
	f := &Fleet{config: config}
	if err := f.check(); err != nil {
		return nil, err
	}
	// A hash tag of its own makes the key a fresh one, and names the slot it lives in whatever is behind the tag.
	f.key = ration.TaggedKey(rand.Text(), strings.Split(config.Key, ":")...)
	for range config.Instances {
		i, err := newInstance(config, f.key)
		if err != nil {
			f.Close()
			return nil, err
		}
		f.instances = append(f.instances, i)
	}
	return f, nil
}

func (f *Fleet) check() error {
	c := f.config
	var err error
	if f.rate, err = RateOf(c.Plan); err != nil {
		return err
	}
	offers := f.rate * c.Load * c.Duration.Seconds()
	switch {
	case c.Instances < 1 || c.Instances > maxInstances:
		return fmt.Errorf("%d instances: want 1 to %d", c.Instances, maxInstances)
	case !(c.Load > 0) || math.IsInf(c.Load, 0):
		return fmt.Errorf("a load of %v: want a number above 0", c.Load)
	case c.Duration <= 0 || c.Duration > maxDuration:
		return fmt.Errorf("a duration of %v: want more than 0, at most %v", c.Duration, maxDuration)
	case c.Timeout <= 0:
		return fmt.Errorf("a timeout of %v: want more than 0", c.Timeout)
	case offers < 1:
		return fmt.Errorf("%v times %v is not one request in %v: raise the load or the duration", c.Load, c.Plan, c.Duration)
	case offers > maxOffers:
		return fmt.Errorf("%v times %v is %.0f requests in %v: at most %d, so lower the load or the duration",
			c.Load, c.Plan, offers, c.Duration, maxOffers)
	}
	// A hair's breadth for what the product of 100/s, 3 and 5s may lack to a whole number.
	f.offers = int64(offers * (1 + 1e-9))
	return nil
}

// Rate is the plan's, in units a second.
func (f *Fleet) Rate() float64 { return f.rate }

// Offers is how many requests the whole fleet is to be offered.
func (f *Fleet) Offers() int64 { return f.offers }

// Now is what every instance has counted so far. It may be called while the fleet runs.
func (f *Fleet) Now() []Tally {
	tallies := make([]Tally, len(f.instances))
	for n, i := range f.instances {
		tallies[n] = i.tally()
	}
	return tallies
}

// Run offers requests until the duration is over or ctx ends, which is no error, and then deletes the key. A request on its
// way when ctx ends is still decided. A Fleet runs once.
func (f *Fleet) Run(ctx context.Context) (Result, error) {
	var running sync.WaitGroup
	each, more := f.offers/int64(len(f.instances)), f.offers%int64(len(f.instances))
	for n, i := range f.instances {
		requests := each
		if int64(n) < more {
			requests++
		}
		running.Go(func() { i.offer(ctx, requests, f.config.Duration) })
	}
	running.Wait()
	leftover := f.instances[0].forget()
	result, err := f.result()
	if err != nil {
		return Result{}, err
	}
	if ctx.Err() == nil {
		result.Late = f.offers - result.All.Offered
	}
	result.Leftover = leftover
	return result, nil
}

// Close closes the clients.
func (f *Fleet) Close() {
	for _, i := range f.instances {
		i.close()
	}
}

// ErrNoDecision is wrapped by the error of a Run in which Redis decided nothing.
var ErrNoDecision = errors.New("no request was decided")
