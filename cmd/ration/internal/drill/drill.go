// Package drill breaks the Redis of a fleet while it is under load, and says what became of its limit meanwhile.
package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/breakage"
	"github.com/go-ration/ration/cmd/ration/internal/fleet"
)

// Config says what a Drill does.
type Config struct {
	Instances int // 1 to 100
	Plan      ration.Plan
	Load      float64       // requests offered by the whole fleet, as a multiple of the plan's rate: more than 0
	Timeout   time.Duration // of a decision: more than 0
	Policy    Policy        // what decides without Redis
	Phase     time.Duration // how long Redis is broken in each way, and healthy after that: 100 ms to 10 minutes
	Latency   time.Duration // that is added while Redis is slow, in whole milliseconds: 1 ms to 10 s
	NewRedis  func() redis.UniversalClient
	// Break puts Redis into a state, as far as the clients of NewRedis see it.
	Break func(ctx context.Context, state breakage.State) error
}

const (
	maxInstances = 100
	leastPhase   = 100 * time.Millisecond
	mostPhase    = 10 * time.Minute
	mostLatency  = 10 * time.Second
	// maxOffers is how many decisions are kept in memory.
	maxOffers = 1_000_000
)

// Drill is a fleet in one process, and the Redis that is broken under it. The instances share no more than processes do.
type Drill struct {
	config    Config
	instances []*instance
}

// New makes a Drill. It does no I/O. Whoever makes it closes it.
func New(config Config) (*Drill, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	d := &Drill{config: config}
	key := ration.TaggedKey(rand.Text(), "drill") // a fresh one in each run
	for n := range config.Instances {
		i, err := newInstance(config, n, key)
		if err != nil {
			d.Close()
			return nil, err
		}
		d.instances = append(d.instances, i)
	}
	return d, nil
}

// Check says what is wrong with the numbers of a Config, if anything is.
func (c Config) Check() error {
	rate, err := fleet.RateOf(c.Plan)
	if err != nil {
		return err
	}
	span := duration(schedule(c.Phase))
	offers := rate * c.Load * span.Seconds()
	switch {
	case c.Instances < 1 || c.Instances > maxInstances:
		return fmt.Errorf("%d instances: want 1 to %d", c.Instances, maxInstances)
	case !(c.Load > 0) || math.IsInf(c.Load, 0):
		return fmt.Errorf("a load of %v: want a number above 0", c.Load)
	case c.Timeout <= 0:
		return fmt.Errorf("a timeout of %v: want more than 0", c.Timeout)
	case c.Phase < leastPhase || c.Phase > mostPhase:
		return fmt.Errorf("a phase of %v: want %v to %v", c.Phase, leastPhase, mostPhase)
	case c.Latency < time.Millisecond || c.Latency > mostLatency || c.Latency%time.Millisecond != 0:
		return fmt.Errorf("a latency of %v: want whole milliseconds, %v to %v", c.Latency, time.Millisecond, mostLatency)
	case offers < 1:
		return fmt.Errorf("%v times %v is not one request in %v: raise the load or the phase", c.Load, c.Plan, span)
	case offers > maxOffers:
		return fmt.Errorf("%v times %v is %.0f requests in %v: at most %d, so lower the load or the phase",
			c.Load, c.Plan, offers, span, maxOffers)
	}
	return nil
}

// Offered is how many requests a second the whole fleet is offered; 0 of a plan without a rate.
func (c Config) Offered() float64 {
	rate, _ := fleet.RateOf(c.Plan)
	return rate * c.Load
}

// Close closes the clients. It may be called again.
func (d *Drill) Close() {
	for _, i := range d.instances {
		i.close()
	}
}

// ErrNoDecision is wrapped by the error of a Run that did not begin, for there is no use in breaking a Redis that does not work.
var ErrNoDecision = errors.New("before anything was broken, Redis did not decide")

// Run offers requests while Redis is broken and mended, until the schedule or ctx ends, which is no error, and leaves Redis healthy.
// As each second ends, look is told of the run so far. A Drill runs once.
func (d *Drill) Run(ctx context.Context, look func(Run)) (Run, error) {
	if err := d.connect(ctx); err != nil {
		return Run{}, err
	}
	c := d.config
	rate, err := fleet.RateOf(c.Plan)
	if err != nil {
		return Run{}, err
	}
	start := time.Now()
	record := &recorder{start: start, run: Run{
		Plan: c.Plan, Rate: rate, Instances: c.Instances, Timeout: c.Timeout, Latency: c.Latency, Policy: c.Policy,
		PhaseLength: c.Phase, Started: start,
	}}
	load, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, i := range d.instances {
		running.Go(func() { i.offer(load, c.Offered()/float64(c.Instances), record) })
	}
	running.Go(func() { record.watchMachine(load) })
	last, err := d.follow(ctx, record, look)
	end()
	running.Wait()
	record.endPhase(last)
	// Though ctx may have ended: what is not ours is left as it was.
	err = errors.Join(err, c.Break(context.WithoutCancel(ctx), breakage.Healthy))
	run := record.result()
	if err != nil {
		return Run{}, err
	}
	run.Leftover = d.forget()
	return run, nil
}

// connect sees to it that Redis decides, and has each instance connected, once for each of its callers: a drill is not about the start
// of a service.
func (d *Drill) connect(ctx context.Context) error {
	err := d.patiently(func(l *ration.Limiter, key string) error {
		first, err := l.Allow(ctx, key)
		if err == nil {
			err = first.Cause
		}
		if err == nil {
			err = l.Reset(ctx, key)
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNoDecision, err)
	}
	for _, i := range d.instances {
		group, ctx := errgroup.WithContext(ctx)
		for range callers { // at once, so that each finds all others' connections in use
			group.Go(func() error { return i.rdb.Ping(ctx).Err() })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// patiently does something with the key, before the instances or after them, by one more that knows of no outage and may wait.
func (d *Drill) patiently(do func(l *ration.Limiter, key string) error) error {
	config := d.config
	config.Timeout = max(config.Timeout, time.Second)
	i, err := newInstance(config, 0, d.instances[0].key)
	if err != nil {
		return err
	}
	defer i.close()
	return do(i.limiter, i.key)
}

// follow goes through the schedule, and answers the state that Redis is in at its end, which may be an early one.
func (d *Drill) follow(ctx context.Context, record *recorder, look func(Run)) (present breakage.State, err error) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	due := record.start
	for n, s := range schedule(d.config.Phase) {
		switch {
		case n == 0:
		case s.state == breakage.Healthy: // from when it is back
			if err := d.config.Break(ctx, s.state); ctx.Err() != nil {
				return present, nil // whatever the error, as it may be the end of ctx
			} else if err != nil {
				return present, err
			}
			record.endPhase(present)
		default: // from when it begins to break
			record.endPhase(present)
			if err := d.config.Break(ctx, s.state); err != nil {
				return s.state, err
			}
		}
		present = s.state
		due = due.Add(s.length)
		if !watch(ctx, ticker.C, due, func() { look(record.now(present)) }) {
			return present, nil
		}
	}
	return present, nil
}

// watch waits until a phase is over, and has each second looked at; it answers whether it was over before ctx ended.
func watch(ctx context.Context, seconds <-chan time.Time, over time.Time, look func()) bool {
	timer := time.NewTimer(time.Until(over))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-seconds:
			look()
		}
	}
}

// forget deletes the key, when nobody is left who might still charge it.
func (d *Drill) forget() error {
	d.Close()
	return d.patiently(func(l *ration.Limiter, key string) error { return l.Reset(context.Background(), key) })
}
