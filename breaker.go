package ration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Breaker is when a Client stops asking a node of Redis that does not answer, and when it asks again. Meanwhile the failure policy
// answers at once. Each node of a cluster has a breaker of its own.
//
// It goes by calls without an answer: a timeout, a connection that cannot be made or breaks. Whatever Redis answers, faults too,
// is an answer. Once open it lets one call through from time to time, a probe, whose caller waits for its timeout at most; the
// first answer closes it.
//
// A field that is zero has its default.
type Breaker struct {
	// Failures is how many calls in a row get no answer before it opens: 1 or more. Default 5.
	Failures int
	// Share is the share of the calls of the last ten seconds, if they are 20 or more, that get no answer before it opens: more
	// than 0, at most 1. Default 0.5; with 1 it goes by Failures alone.
	Share float64
	// Probe is the time until the first probe, and from one to the next: 1 ms or more. Up to a quarter of it is added at random, so
	// that a fleet does not probe at once. Default 500 ms.
	Probe time.Duration
}

var defaultBreaker = Breaker{Failures: 5, Share: 0.5, Probe: 500 * time.Millisecond}

const (
	shareSpan   = 10 * time.Second // that Breaker.Share looks back on
	shareBucket = time.Second
	shareCalls  = 20
)

func (b Breaker) withDefaults() (Breaker, error) {
	wrong := func(format string, args ...any) (Breaker, error) {
		return b, fmt.Errorf("%w: WithBreaker: "+format, append([]any{ErrInvalidOption}, args...)...)
	}
	switch {
	case b.Failures < 0:
		return wrong("Failures is %d: must be at least 1", b.Failures)
	case !(b.Share >= 0 && b.Share <= 1): // not a number, too
		return wrong("Share is %v: must be more than 0, at most 1", b.Share)
	case b.Probe < 0 || 0 < b.Probe && b.Probe < time.Millisecond:
		return wrong("Probe is %v: must be at least 1ms", b.Probe)
	}
	return Breaker{
		Failures: cmp.Or(b.Failures, defaultBreaker.Failures),
		Share:    cmp.Or(b.Share, defaultBreaker.Share),
		Probe:    cmp.Or(b.Probe, defaultBreaker.Probe),
	}, nil
}

// WithBreaker sets when a Client stops asking a node that does not answer. Unless set, it is Breaker{}.
func WithBreaker(b Breaker) ClientOption {
	return clientOption(func(c *clientConfig) (err error) {
		c.breaker, err = b.withDefaults()
		return err
	})
}

// breaker is that of one node.
type breaker struct {
	node    string // its address, if known
	circuit *gobreaker.CircuitBreaker[struct{}]
	// probeAt is when the next probe may go, in nanoseconds since start; 0: not open. It is looked at before the circuit, which
	// takes a lock, and adds what is random to the circuit's own time.
	probeAt  atomic.Int64
	settling time.Duration // how long it takes until all processes of a fleet have noticed that the node is back
	// settledAt is when, after the breaker closed, all processes of the fleet have closed theirs, and have charged Redis with what they
	// granted without it; in nanoseconds since start.
	settledAt atomic.Int64
	// failedAt is when it is last known that no request was decided here: when the last call that failed was sent, at the latest; in
	// nanoseconds since start, 0: never.
	failedAt atomic.Int64
	refusal  atomic.Pointer[error] // of calls that are not let through
	failure  error                 // the last; with the circuit's lock
	openedAt int64                 // nanos; with the circuit's lock

	report  func(ObservedBreaker)
	telling sync.Mutex   // held by who reports
	untold  atomic.Int64 // changes
	mu      sync.Mutex
	changes []ObservedBreaker // not yet reported, in their order
}

func newBreaker(node string, b Breaker, report func(ObservedBreaker)) *breaker {
	k := &breaker{node: node, report: report, settling: b.Probe + b.Probe/4}
	k.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         node,
		MaxRequests:  1,
		Interval:     shareSpan,
		BucketPeriod: shareBucket,
		Timeout:      b.Probe,
		ReadyToTrip: func(calls gobreaker.Counts) bool {
			return int64(calls.ConsecutiveFailures) >= int64(b.Failures) ||
				b.Share < 1 && calls.Requests >= shareCalls && float64(calls.TotalFailures) >= b.Share*float64(calls.Requests)
		},
		IsSuccessful: func(err error) bool {
			failed := !isAnswered(err)
			if failed {
				k.failure = err
			}
			return !failed
		},
		IsExcluded: isCallersEnd,
		OnStateChange: func(node string, from, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				k.refuse(k.failure)
				if from == gobreaker.StateClosed {
					k.openedAt = nanos()
					k.note(ObservedBreaker{Node: node, Open: true, Cause: k.failure})
				}
				k.probeAt.Store(nanos() + int64(b.Probe) + rand.Int64N(int64(b.Probe)/4))
			case gobreaker.StateClosed:
				k.settledAt.Store(nanos() + int64(k.settling))
				k.probeAt.Store(0)
				k.note(ObservedBreaker{Node: node, After: time.Duration(nanos() - k.openedAt)})
			case gobreaker.StateHalfOpen: // the probe is on its way
			}
		},
	})
	return k
}

// isOpen says that calls are refused, but for probes.
func (k *breaker) isOpen() bool { return k.probeAt.Load() != 0 }

// wait is how long it is until the next probe may go; 0: a call may go now.
func (k *breaker) wait() time.Duration {
	at := k.probeAt.Load()
	if at == 0 {
		return 0
	}
	return max(time.Duration(at-nanos()), 0)
}

// backSince is for how long the node may have been back, as long as the fleet settles and once more as long; then, and if it never
// failed, it is 0.
func (k *breaker) backSince() time.Duration {
	at := k.failedAt.Load()
	if at == 0 {
		return 0
	}
	if since := time.Duration(nanos() - at); since < 2*k.settling {
		return since
	}
	return 0
}

// isSettling says that the breaker has closed, and other processes may not have charged Redis yet.
func (k *breaker) isSettling() bool {
	at := k.settledAt.Load()
	return at != 0 && nanos() < at
}

// nanos is the time since start, by the monotonic clock.
func nanos() int64 { return int64(time.Since(start)) }

// refused is the error of a call while none is let through, not even as a probe.
func (k *breaker) refused() error {
	if at := k.probeAt.Load(); at != 0 && nanos() < at {
		return *k.refusal.Load()
	}
	return nil
}

// run does a call with a timeout, or refuses it.
func (k *breaker) run(call func() (struct{}, error), timeout time.Duration) error {
	if err := k.refused(); err != nil {
		return err
	}
	_, err := k.circuit.Execute(call)
	k.tell()
	if err == gobreaker.ErrOpenState || err == gobreaker.ErrTooManyRequests { //nolint:errorlint // the circuit's own
		return *k.refusal.Load()
	}
	if err != nil && !isCallersEnd(err) {
		k.failedAt.Store(nanos() - int64(timeout))
	}
	return err
}

// note notes a change. The circuit is locked then, so that it is reported later.
func (k *breaker) note(o ObservedBreaker) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = append(k.changes, o)
	k.untold.Add(1)
}

// tell reports what has changed, unless somebody does: who then goes on with what came meanwhile.
func (k *breaker) tell() {
	for k.untold.Load() > 0 && k.telling.TryLock() {
		k.tellLocked()
	}
}

// tellLocked reports some changes. The lock is given back even if an observer ends the goroutine.
func (k *breaker) tellLocked() {
	defer k.telling.Unlock()
	k.mu.Lock()
	changes := k.changes
	k.changes = nil
	k.untold.Add(-int64(len(changes)))
	k.mu.Unlock()
	for _, o := range changes {
		k.report(o)
	}
}

// refuse makes the error of the calls that are not let through.
func (k *breaker) refuse(cause error) {
	of := ""
	if k.node != "" {
		of = " of " + k.node
	}
	err := unavailable(fmt.Errorf("%w%s: %s", ErrBreakerOpen, of, withoutPrefix(cause)))
	k.refusal.Store(&err)
}

// learn has calls refused for why a call really failed, which is known only after its caller has left: a connection that is refused
// is dialled for longer than most callers wait.
func (k *breaker) learn(cause error) {
	if k.isOpen() && !errors.Is(cause, context.Canceled) {
		k.refuse(cause)
	}
}

// isAnswered says that a node gave an answer, if only a fault.
func isAnswered(err error) bool {
	failed := failureOf(err)
	return err == nil || failed != nil && failed.isFault
}

// isCallersEnd says that a call ended because its caller did, which says nothing of the node.
func isCallersEnd(err error) bool {
	return err != nil && !isFailure(err)
}
