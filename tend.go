package ration

import (
	"context"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// tend looks after what is counted here until there is nothing any more: it pays what keys owe, some at once, as soon as Redis is back, and
// forgets those that are as good as new. That Redis is back it finds out by itself, by one key of each node, for the keys that owe may not
// be asked for again. Processes come at times of their own, for so do the probes of their breakers.
func (l *local) tend(e *executor) {
	most := min(e.lanes.probe, sweepApart)
	pause := rand.N(most / 2)
	for {
		select {
		case <-time.After(pause):
		case <-e.closed:
			return
		}
		pause = most
		answers := make(map[*lane]bool)
		var able []owingKey
		for _, one := range l.owingKeys() {
			lane := e.lanes.of(one.key)
			if _, asked := answers[lane]; !asked {
				answers[lane] = lane.breaker.wait() == 0 && e.probe(context.Background(), one.timeout, one.key) == nil
			}
			if answers[lane] {
				able = append(able, one)
			} else {
				pause = min(pause, max(lane.breaker.wait(), probeByAnother))
			}
		}
		for some := range slices.Chunk(able, paymentsAtOnce) {
			if e.isClosed() {
				return
			}
			_ = atOnce(len(some), func(i int) error { return l.pay(context.Background(), some[i].timeout, some[i].key) })
		}
		l.sweep()
		if l.isOver() {
			return
		}
	}
}

// isOver says that nothing is counted here, so that nobody tends it any more.
func (l *local) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) > 0 {
		return false
	}
	l.entries = make(map[string]*localEntry) // a map keeps the room that it had
	l.isTended = false
	return true
}

// sweep looks at some keys, by chance, and forgets those that are as good as new. Requests do not wait for long meanwhile.
func (l *local) sweep() {
	for looked := 0; looked < mostSwept; looked += keysAtOnce {
		if !l.sweepSome() {
			return
		}
		runtime.Gosched() // to who waits for the lock
	}
}

// sweepSome says whether there are more keys.
func (l *local) sweepSome() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, looked := l.clock(), 0
	for key, e := range l.entries {
		if looked == keysAtOnce {
			return true
		}
		looked++
		if e.isDone(now) {
			l.removeLocked(key)
		}
	}
	return false
}

// owingKeys are the keys that owe something that still weighs, with the timeouts of their limiters: who has longer to wait for an answer
// would find a Redis back that is too slow for requests. What does not weigh any more is forgotten. Requests do not wait for long
// meanwhile.
func (l *local) owingKeys() (keys []owingKey) {
	l.mu.Lock()
	owers := slices.Collect(maps.Keys(l.owers))
	l.mu.Unlock()
	for some := range slices.Chunk(owers, keysAtOnce) {
		keys = l.owingAmong(some, keys)
		runtime.Gosched() // to who waits for the lock
	}
	return keys
}

// owingAmong adds those of some keys that owe something that still weighs.
func (l *local) owingAmong(some []string, keys []owingKey) []owingKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	for _, key := range some {
		e := l.entries[key]
		switch {
		case e == nil || e.debt == 0:
			delete(l.owers, key)
		case nanos() < e.payAt && e.payAt != 0:
		case e.payment != nil || e.weighing(key, now) > 0:
			keys = append(keys, owingKey{key, e.limiter.config.timeout})
		default:
			l.setDebtLocked(e, 0)
			delete(l.owers, key)
		}
	}
	return keys
}

type owingKey struct {
	key     string // stored
	timeout time.Duration
}

const (
	sweepApart = time.Second // from one sweep to the next
	mostSwept  = 10_000      // keys looked at in one
	// keysAtOnce bounds the keys that are looked at while requests wait.
	keysAtOnce = 64
	// probeByAnother is how long somebody else's probe is waited for.
	probeByAnother = 20 * time.Millisecond
	// paymentsAtOnce bounds the payments of a Client on their way, but for those that requests make.
	paymentsAtOnce = 32
)
