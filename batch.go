package ration

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// batcher has the calls to one node of Redis share round trips. A call goes at once, alone, while fewer than mostFlying flushes are on their
// way; else it waits in the queue for the next flush, which takes along all that have come meanwhile. There is no timer: a flush starts
// when one has landed.
//
// A call does not wait behind flushes that are late, but goes beside them: at once, or when they are.
type batcher struct {
	executor *executor
	shares   bool         // else each call goes alone, as soon as there is a place
	most     int          // calls on their way
	keys     atomic.Int32 // the most keys of one plan that a script call may have

	mu       sync.Mutex
	queue    callQueue // those that are not on their way
	flights  []*flush  // on their way
	inFlight int       // calls on their way, of flushes or apart
}

const (
	// mostFlying is how many flushes are on their way before calls wait for each other. With one, 2 to 8 callers are a third slower
	// than if they did not share; with four they are not.
	mostFlying = 4
	// fewCalls are so few on their way that each further call goes at once; beside more of them a flush waits until it has one for every
	// shareOfCalls of theirs. So the server has one half to decide while the other half asks for more, and not all or nothing.
	fewCalls, shareOfCalls = 8, 2
	// mostCalls is the most calls of a flush.
	mostCalls = 256
	// longestFlight is how old a flush is before it is late; or half the timeout of who waits for it, if that is less.
	longestFlight = 100 * time.Millisecond
)

// patience is how old a flush is before the call does not wait behind it.
func (c *call) patience() time.Duration { return min(c.timeout/2, longestFlight) }

// join has a call sent.
func (b *batcher) join(c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue.push(c)
	b.startLocked(c.patience())
}

// urge has a call sent that has waited for so long that flushes before it may be late, and says whether it is. If it is not, those that
// are on their way began later, and are late later.
func (b *batcher) urge(c *call) (isSent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.flush == nil {
		b.startLocked(c.patience())
	}
	return c.flush != nil
}

// withdraw takes a call back that has not been sent.
func (b *batcher) withdraw(c *call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.flush != nil || c.isFinished() {
		return false
	}
	b.queue.remove(c)
	return true
}

// refuse ends the calls that have not been sent, but for those that undo something.
func (b *batcher) refuse(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := b.queue.first; c != nil; {
		behind := c.behind
		if !c.isUndo {
			b.queue.remove(c)
			c.finish(nil, nil, err)
		}
		c = behind
	}
}

// land ends a flush, and starts the next. Whoever it has answered may ask for more first, and be of the next.
func (b *batcher) land(f *flush) {
	runtime.Gosched()
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.flights) - 1
	b.flights[f.at] = b.flights[last]
	b.flights[f.at].at = f.at
	b.flights[last] = nil
	b.flights = b.flights[:last]
	b.inFlight -= f.n
	f.recycle()
	b.startNextLocked()
}

// release gives back the places of calls that were sent apart.
func (b *batcher) release(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight -= n
	b.startNextLocked()
}

// startNextLocked starts the flushes that may go, if there are calls for them.
func (b *batcher) startNextLocked() {
	if b.queue.n > 0 {
		b.startLocked(b.queue.first.patience())
	}
}

// startLocked starts the flushes that may go, where there is a call that waits for so long behind one of them.
func (b *batcher) startLocked(patience time.Duration) {
	for b.mayFlyLocked(patience) {
		f := b.boardLocked()
		b.executor.running.Add(1)
		go f.work()
	}
}

// mayFlyLocked says that a flush may start, for a call that waits for so long behind those on their way.
func (b *batcher) mayFlyLocked(patience time.Duration) bool {
	switch {
	case b.queue.n == 0 || b.inFlight >= b.most:
		return false
	case !b.shares || b.hasPlace(len(b.flights), b.inFlight):
		return true
	}
	late := nanos() - int64(patience)
	flights, calls := 0, 0
	for _, f := range b.flights {
		if f.began > late {
			flights++
			calls += f.boarded
		}
	}
	return b.hasPlace(flights, calls)
}

// hasPlace says whether another flush may go beside so many, which have so many calls.
func (b *batcher) hasPlace(flights, calls int) bool {
	return flights < mostFlying && (calls < fewCalls || shareOfCalls*b.queue.n >= calls)
}

// boardLocked is a flush of the calls that have waited for longest.
func (b *batcher) boardLocked() *flush {
	f := b.executor.flushes.Get().(*flush)
	f.n = 1
	if b.shares {
		f.n = min(b.queue.n, b.most-b.inFlight, mostCalls)
	}
	f.batcher, f.boarded, f.began, f.at = b, f.n, nanos(), len(b.flights)
	f.context = callContext{Context: b.queue.first.ctx, gone: f.gone}
	f.waiting.Store(int64(f.n))
	for range f.n {
		c := b.queue.pop()
		c.flush = f
		f.calls.push(c)
	}
	b.flights = append(b.flights, f)
	b.inFlight += f.n
	return f
}

// callsInFlight is how many calls are on their way.
func (b *batcher) callsInFlight() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight
}
