package ration

import (
	"fmt"
	"log/slog"
	"time"
)

// ClientOption is an option of New.
type ClientOption interface {
	applyToClient(*clientConfig) error
}

// LimiterOption is an option of Client.Limiter.
type LimiterOption interface {
	applyToLimiter(*limiterConfig) error
}

// Option is an option of New, for all limiters of a Client, and of Client.Limiter, for one of them.
type Option interface {
	ClientOption
	LimiterOption
}

type clientConfig struct {
	prefix      string
	maxInFlight int
	keysPerCall int
	breaker     Breaker
	localKeys   int

	observers    []Observer
	observedKeys bool
	logger       *slog.Logger

	limiter limiterConfig // what limiters start from
}

type limiterConfig struct {
	timeout time.Duration
	planFor func(key string) (Plan, bool)
	keyFor  func(key string) string
	shards  int

	denyCache time.Duration // 0: off
	prefetch  Prefetch      // Max 0: off

	policy    FailurePolicy
	fleetSize int64 // 0: not said
}

const (
	defaultPrefix      = "ration"
	defaultTimeout     = 10 * time.Millisecond
	defaultMaxInFlight = 1024
)

type clientOption func(*clientConfig) error

func (f clientOption) applyToClient(c *clientConfig) error { return f(c) }

type limiterOption func(*limiterConfig) error

func (f limiterOption) applyToLimiter(c *limiterConfig) error { return f(c) }

type option func(*limiterConfig) error

func (f option) applyToClient(c *clientConfig) error { return f(&c.limiter) }

func (f option) applyToLimiter(c *limiterConfig) error { return f(c) }

// WithPrefix sets the first part of every stored key, for services that share a Redis and no quota: 1 to 128 of
// A-Z a-z 0-9 . _ -. Unless set, it is "ration".
func WithPrefix(prefix string) ClientOption {
	return clientOption(func(c *clientConfig) error {
		c.prefix = prefix
		return checkName("prefix", prefix)
	})
}

// WithTimeout sets how long a call waits for Redis before the failure policy decides, whatever the options of the redis client: more
// than 0. Unless set, it is 10 ms. A call whose context ends earlier ends with its context.
func WithTimeout(timeout time.Duration) Option {
	return option(func(c *limiterConfig) error {
		if timeout <= 0 {
			return fmt.Errorf("%w: WithTimeout: is %v: must be more than 0", ErrInvalidOption, timeout)
		}
		c.timeout = timeout
		return nil
	})
}

// WithMaxInFlight sets how many calls of a Client may be on their way to one node of Redis at once, those included whose callers
// no longer wait: 1 or more. Unless set, it is 1024. Further calls wait until some of those are back, within their timeout, so that a
// Redis that hangs cannot pile up goroutines.
func WithMaxInFlight(n int) ClientOption {
	return clientOption(func(c *clientConfig) error {
		if n < 1 {
			return fmt.Errorf("%w: WithMaxInFlight: is %d: must be at least 1", ErrInvalidOption, n)
		}
		c.maxInFlight = n
		return nil
	})
}

// WithKeysPerCall sets for how many keys, 1 to 32, a script call may decide that one *redis.Client sends: requests that wait for the same
// round trip, of one plan and cost, share script calls, which takes the server about half of the time, and this process less than without.
// Those of a [SlidingLog] and a [MultiPlan] do not. Unless set, it is 32. It is 1, whatever is set, for any other redis client, and once
// Redis has answered that keys are of different slots (CROSSSLOT). Errors: ErrInvalidOption.
//
// Set it to 1 where the *redis.Client talks to a proxy that sends a whole command to the server of its first key, such as Envoy's or
// twemproxy: a key would be counted now on one server and now on another.
func WithKeysPerCall(n int) ClientOption {
	return clientOption(func(c *clientConfig) error {
		if n < 1 || n > maxKeysPerCall {
			return fmt.Errorf("%w: WithKeysPerCall: is %d: must be 1 to %d", ErrInvalidOption, n, maxKeysPerCall)
		}
		c.keysPerCall = n
		return nil
	})
}

// WithPlanFor gives keys plans of their own: different customers, different quotas. The function is called for every
// decision, by several goroutines at once, so it should be quick; where it answers false, the limiter's plan holds. Its
// plans must be of the limiter's kind; what is stored of a key when its plan changes is said at each plan.
func WithPlanFor(planFor func(key string) (Plan, bool)) LimiterOption {
	return limiterOption(func(c *limiterConfig) error {
		if planFor == nil {
			return fmt.Errorf("%w: WithPlanFor: is nil", ErrInvalidOption)
		}
		c.planFor = planFor
		return nil
	})
}

// WithKeyFor has a limiter count a key under another one, for whom a quota is not by the key of the request: one limit over all
// tenants has the same key for each. The function is called for every decision, by several goroutines at once. WithPlanFor is
// asked for the key that it answers.
func WithKeyFor(keyFor func(key string) string) LimiterOption {
	return limiterOption(func(c *limiterConfig) error {
		if keyFor == nil {
			return fmt.Errorf("%w: WithKeyFor: is nil", ErrInvalidOption)
		}
		c.keyFor = keyFor
		return nil
	})
}
