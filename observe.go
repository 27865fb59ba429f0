package ration

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Observer is told of every decision of a Client: for metrics and traces. Looks are decisions too, of cost 0; calls that end with an
// error are not, for their callers have it.
//
// It is called by the goroutine that asked, once the decision is made, and by several at once. Their callers wait for it, so it should
// be quick; and it may use the Client. A panic in it is logged, and goes no further.
type Observer interface {
	ObserveDecision(ctx context.Context, o ObservedDecision)
}

// ObservedDecision is a decision, and what it was about.
type ObservedDecision struct {
	// Limiter is its name. In a chain each limiter that was asked has a decision of its own.
	Limiter string
	// Key is whom the quota was charged to, if the Client is made WithObservedKeys, else empty: a metric with a series for each key
	// grows without end, and a key may be a person's name.
	Key string
	// Cost is how many units were asked for. A look has 0.
	Cost int64
	// Decision says by which plan, by whom and, if it was not Redis, why.
	Decision Decision
	// Latency is how long the caller waited for it.
	Latency time.Duration
}

// BreakerObserver is an Observer that is also told when a breaker opens or closes. It is called by the goroutine whose call did
// that, in the order in which it happened at each node.
type BreakerObserver interface {
	Observer
	ObserveBreaker(o ObservedBreaker)
}

// ObservedBreaker is a breaker that has opened or closed.
type ObservedBreaker struct {
	Node  string        // the address of a server; empty where it is not known, as of a Ring
	Open  bool          // else closed
	Cause error         // why it opened
	After time.Duration // how long it was open, of one that has closed
}

// WithObserver has an Observer told of what a Client decides. It may be given several times.
func WithObserver(o Observer) ClientOption {
	return clientOption(func(c *clientConfig) error {
		if o == nil {
			return fmt.Errorf("%w: WithObserver: is nil", ErrInvalidOption)
		}
		c.observers = append(c.observers, o)
		return nil
	})
}

// WithObservedKeys has observers and log lines told the keys of requests. Unless set, they are not.
func WithObservedKeys() ClientOption {
	return clientOption(func(c *clientConfig) error {
		c.observedKeys = true
		return nil
	})
}

// WithLogger sets where a Client logs. Unless set, it is slog.Default(); slog.New(slog.DiscardHandler) is for silence. It logs:
//
//   - when a node of Redis does not answer any more (Warn), and when it does again (Info)
//   - decisions made without Redis (Warn), and those where its configuration is why (Error); and when Redis has decided again for a
//     second (Info)
//   - denials by Redis (Debug)
//   - an Observer that panicked, and a fleet that Redis refuses to count (Error)
//
// Of decisions, without Redis and denied, it logs five at once for each limiter and then one in five seconds, which says how many were
// not shown.
func WithLogger(logger *slog.Logger) ClientOption {
	return clientOption(func(c *clientConfig) error {
		if logger == nil {
			return fmt.Errorf("%w: WithLogger: is nil", ErrInvalidOption)
		}
		c.logger = logger
		return nil
	})
}

// reporter counts what a Client does, tells its observers, and logs.
type reporter struct {
	counters
	observers []Observer
	breakers  []BreakerObserver // those of them that want to know
	withKeys  bool
	logger    *slog.Logger // nil: the default one
	panics    lineLimit
}

func newReporter(c clientConfig) *reporter {
	r := &reporter{observers: c.observers, withKeys: c.observedKeys, logger: c.logger}
	for _, o := range c.observers {
		if b, ok := o.(BreakerObserver); ok {
			r.breakers = append(r.breakers, b)
		}
	}
	return r
}

// begin is when a call begins, if anybody wants to know.
func (r *reporter) begin() int64 {
	if len(r.observers) == 0 {
		return 0
	}
	return nanos()
}

// decided tells of a decision.
func (r *reporter) decided(ctx context.Context, l *Limiter, a asked, d *Decision, began int64) {
	r.count(d)
	r.logDecision(ctx, l, a, d)
	if len(r.observers) == 0 {
		return
	}
	o := ObservedDecision{Limiter: l.name, Key: r.key(a), Cost: a.cost * a.count, Decision: *d, Latency: time.Duration(nanos() - began)}
	for _, observer := range r.observers {
		r.guard(func() { observer.ObserveDecision(orBackground(ctx), o) })
	}
}

// breakerChanged tells of a breaker. It may be the goroutine that beats or pays which found that out, and what is the user's might end it.
func (r *reporter) breakerChanged(o ObservedBreaker) {
	r.breakerChanges.Add(1)
	apart(func() { r.logBreaker(o) })
	for _, observer := range r.breakers {
		apart(func() { r.guard(func() { observer.ObserveBreaker(o) }) })
	}
}

// apart does what may end its goroutine in one of its own, and waits for it.
func apart(do func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do()
	}()
	<-ended
}

// key is that of a request, if it may be told.
func (r *reporter) key(a asked) string {
	if r.withKeys {
		return a.key
	}
	return ""
}

// guard calls what is the user's, and keeps a panic in it from the caller.
func (r *reporter) guard(call func()) {
	defer func() {
		if p := recover(); p != nil {
			r.logPanic(p)
		}
	}()
	call()
}
