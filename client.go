package ration

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client makes limiters that keep their counts in one Redis. All processes that use the same Redis, prefix, limiter name and
// plan share the quota.
//
// A Client comes from New; the zero value answers ErrClosed. It is safe for concurrent use. A service needs one.
type Client struct {
	prefix   string
	limiter  limiterConfig
	reporter *reporter
	executor *executor
	local    *local
	denials  *denials
	leases   *leases
	fleet    *fleet

	closing sync.Mutex // held by who closes it

	mu       sync.Mutex
	limiters map[string]string // the plan, as ParsePlan reads it, by name
}

// maxLimiters bounds the names a Client remembers.
const maxLimiters = 10_000

// New makes a Client on a redis client: a *redis.Client, also of Sentinel, a *redis.ClusterClient or a *redis.Ring. It does
// no I/O, so a service may start while Redis is away. The redis client stays the caller's, who closes it after the Client.
//
// Errors: ErrInvalidOption (a nil client too), ErrInvalidName.
func New(rdb redis.UniversalClient, options ...ClientOption) (*Client, error) {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return nil, fmt.Errorf("%w: the redis client is nil", ErrInvalidOption)
	}
	config := clientConfig{
		prefix:      defaultPrefix,
		maxInFlight: defaultMaxInFlight,
		keysPerCall: maxKeysPerCall,
		breaker:     defaultBreaker,
		localKeys:   defaultLocalKeys,
		limiter:     limiterConfig{timeout: defaultTimeout, policy: FailLocal(), denyCache: defaultDenial},
	}
	for _, o := range options {
		if o == nil {
			return nil, fmt.Errorf("%w: an option is nil", ErrInvalidOption)
		}
		if err := o.applyToClient(&config); err != nil {
			return nil, err
		}
	}
	reporter, now := newReporter(config), clockOf(rdb)
	executor, denials := newExecutor(rdb, config, reporter), newDenials(config.localKeys, now)
	return &Client{
		prefix:   config.prefix,
		limiter:  config.limiter,
		reporter: reporter,
		executor: executor,
		local:    newLocal(config.localKeys, now),
		denials:  denials,
		leases:   newLeases(executor, denials, config.localKeys, now),
		fleet:    newFleet(executor),
		limiters: make(map[string]string),
	}, nil
}

// Limiter binds a plan to the Client under a name: 1 to 128 of A-Z a-z 0-9 . _ -. Make it once and keep it. It does no I/O.
//
// Limiters of one name and kind of plan share their counts, in this process and in all others. Within one Client a second
// limiter of a name must have the same plan.
//
// Errors: *[PlanError], ErrInvalidName, ErrInvalidOption, ErrLimiterConflict, ErrTooManyLimiters, ErrClosed.
func (c *Client) Limiter(name string, plan Plan, options ...LimiterOption) (*Limiter, error) {
	if err := checkName("limiter", name); err != nil {
		return nil, err
	}
	limiter, err := c.makeLimiter(name, plan, options)
	if err != nil {
		return nil, &limiterError{name, err}
	}
	return limiter, nil
}

func (c *Client) makeLimiter(name string, plan Plan, options []LimiterOption) (*Limiter, error) {
	if c.isClosed() {
		return nil, ErrClosed
	}
	config := c.limiter
	for _, o := range options {
		if o == nil {
			return nil, fmt.Errorf("%w: an option is nil", ErrInvalidOption)
		}
		if err := o.applyToLimiter(&config); err != nil {
			return nil, err
		}
	}
	prepared, err := prepareInShards(plan, config.shards)
	if err != nil {
		return nil, err
	}
	if err := c.register(name, prepared.text); err != nil {
		return nil, err
	}
	return c.bind(name, prepared, config), nil
}

// isClosed says that c was closed, or not made by New.
func (c *Client) isClosed() bool { return c == nil || c.executor == nil || c.executor.isClosed() }

// bind makes a limiter of what has been checked.
func (c *Client) bind(name string, plan *preparedPlan, config limiterConfig) *Limiter {
	_, isLocal := config.policy.(failLocal)
	keys := newKeySpace(c.prefix, name)
	l := &Limiter{
		name:     name,
		plan:     plan,
		config:   config,
		keys:     keys,
		presence: c.fleet.of(name, keys, config, plan.matters()),
		reporter: c.reporter,
		executor: c.executor,
		local:    c.local,
		denials:  c.denials,
		leases:   c.leases,
		isLocal:  isLocal,
		plans:    planCache{shards: config.shards},
	}
	l.stages = &byRedis{l}
	config.prefetch.Max /= int64(max(config.shards, 1))
	if config.prefetch.Max > 1 {
		l.stages = &prefetcher{Limiter: l, config: config.prefetch, next: l.stages}
	}
	if config.denyCache > 0 {
		l.stages = &denyCache{denials: c.denials, longest: config.denyCache, next: l.stages}
	}
	return l
}

func (c *Client) register(name, plan string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	existing, found := c.limiters[name]
	switch {
	case found && existing != plan:
		return fmt.Errorf("%w: it is %s, not %s", ErrLimiterConflict, existing, plan)
	case !found && len(c.limiters) >= maxLimiters:
		return fmt.Errorf("%w: %d, all kept until the Client goes", ErrTooManyLimiters, maxLimiters)
	}
	c.limiters[name] = plan
	return nil
}

// Ping asks Redis for a sign of life, within the Client's timeout. One round trip; writes nothing. On a cluster it asks one
// node.
//
// Errors: what ctx ended with, ErrUnavailable, ErrClosed.
func (c *Client) Ping(ctx context.Context) error {
	if c.isClosed() {
		return ErrClosed
	}
	return c.executor.ping(ctx, c.limiter.timeout)
}

// Close ends the Client: calls made later return ErrClosed, and calls on their way to Redis are waited for, but no longer
// than six seconds, for a redis client without timeouts may hang for ever. It may be called twice. The redis client stays
// open.
func (c *Client) Close() {
	if c == nil || c.executor == nil {
		return
	}
	c.closing.Lock()
	defer c.closing.Unlock()
	begin := nanos()
	c.leases.close(returnGrace)
	c.fleet.leave()
	c.executor.close(closeGrace - time.Duration(nanos()-begin))
}

// closeGrace is above the ReadTimeout of a redis client with default options, 5 s.
const closeGrace = 6 * time.Second

// returnGrace is how much of that is for what is held to go back.
const returnGrace = 2 * time.Second
