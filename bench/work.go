package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// work is a way of asking: which keys, and with which quota.
type work struct {
	title string
	quota quota
	many  bool // many keys in random order, all asked once beforehand; else one key, a new one for each measurement
	n     int  // how many; 0: as the settings say
	deny  bool // nearly all requests are to be denied; else none
	mixed bool // some may be
}

var (
	// plenty is so much that no key runs out in one measurement.
	plenty = quota{units: 50_000_000, refill: 20 * time.Second, window: time.Hour}
	// enough is that for one key of many, and comes back so slowly that Redis forgets none of them between two measurements.
	enough = quota{units: mostLogged, refill: 10 * time.Minute, window: 10 * time.Minute}
	// scarce lets through 20 requests a second, a thousandth of what one caller can ask for.
	scarce = quota{units: 1, refill: 50 * time.Millisecond, window: 50 * time.Millisecond}

	hotAllowed  = work{title: "One key, all requests allowed", quota: plenty}
	hotDenied   = work{title: "One key, nearly all requests denied", quota: scarce, deny: true}
	manyAllowed = work{title: "Many keys in random order, all requests allowed", quota: enough, many: true}
)

// keys is how many keys are asked for.
func (w work) keys(s settings) int {
	switch {
	case !w.many:
		return 1
	case w.n > 0:
		return w.n
	default:
		return s.manyKeys
	}
}

// tally is how many requests were answered, and how.
type tally struct{ allowed, denied int64 }

func (t tally) total() int64 { return t.allowed + t.denied }

// ask lets callers ask a limiter, all at once. Each asks for the keys that next gives it, told how many it has asked for,
// until there is no more. An error of one ends all.
func ask(ctx context.Context, l limiter, callers int, next func(caller, asked int) (key string, more bool)) (tally, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var allowed, denied atomic.Int64
	var running sync.WaitGroup
	for caller := range callers {
		running.Go(func() {
			var own tally
			for asked := 0; ; asked++ {
				key, more := next(caller, asked)
				if !more {
					break
				}
				ok, err := l.allow(ctx, key)
				if err != nil {
					cancel(err)
					break
				}
				if ok {
					own.allowed++
				} else {
					own.denied++
				}
			}
			allowed.Add(own.allowed)
			denied.Add(own.denied)
		})
	}
	running.Wait()
	return tally{allowed.Load(), denied.Load()}, context.Cause(ctx)
}

// askFor asks for keys, in random order, until a span of time is over, but each caller at least once. It answers the time
// until the last answer, too.
func askFor(ctx context.Context, l limiter, keys []string, callers int, span time.Duration) (tally, time.Duration, error) {
	var over atomic.Bool
	defer time.AfterFunc(span, func() { over.Store(true) }).Stop()
	begun := time.Now()
	t, err := ask(ctx, l, callers, func(_, asked int) (string, bool) {
		return keys[rand.IntN(len(keys))], asked == 0 || !over.Load()
	})
	return t, time.Since(begun), err
}

// askTimes asks for keys, in random order, n times in all.
func askTimes(ctx context.Context, l limiter, keys []string, callers, n int) (tally, error) {
	return ask(ctx, l, callers, func(caller, asked int) (string, bool) {
		// The shares of the callers differ by one at most, and add up to n.
		return keys[rand.IntN(len(keys))], asked < (n+caller)/callers
	})
}

// askEach asks for each of the keys once.
func askEach(ctx context.Context, l limiter, keys []string) error {
	const callers = 64
	_, err := ask(ctx, l, callers, func(caller, asked int) (string, bool) {
		i := asked*callers + caller
		if i >= len(keys) {
			return "", false
		}
		return keys[i], true
	})
	return err
}

// check finds answers that cannot be: a limiter that denies what it should allow, or allows more than it may, does other
// work than its peers.
func (w work) check(t tally, elapsed time.Duration) error {
	if !w.deny && !w.mixed && t.denied > 0 {
		return fmt.Errorf("%d of %d requests were denied, and none should be", t.denied, t.total())
	}
	// A window may open just before the first request and just before the last.
	if most := w.quota.units * int64(elapsed/w.quota.window+2); t.allowed > most {
		return fmt.Errorf("%d of %d requests were allowed, and %d at most should be", t.allowed, t.total(), most)
	}
	return nil
}
