package ration

import (
	"container/heap"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// fleet tells how many processes share each limiter of a Client, for what each of them grants without Redis. While a limiter with
// FailLocal is in use, each process notes in Redis that it is there, three times as often as it would have to, and learns by that
// how many are.
//
// One goroutine does so for all limiters of a Client. It starts with the first use of one, and ends when none is in use any more.
type fleet struct {
	executor *executor
	process  string // the name of this Client among those of the fleet

	mu        sync.Mutex
	beating   map[*presence]bool // the limiters in use
	queue     beatQueue          // of those, but for the ones that are beating just now
	byLimiter map[string]*presence
	isBeating bool          // the goroutine runs
	hasLeft   bool          // for good
	woken     chan struct{} // to look again
	ended     chan struct{} // closed when the goroutine has ended; nil: it never ran
}

// presence is that of this process among those that share a limiter.
type presence struct {
	fleet   *fleet
	limiter string        // its name
	timeout time.Duration // of a beat
	assumed int64         // how many processes there are, before that is known
	idle    time.Duration // without use, after which the process is counted no more
	key     string        // where Redis keeps who is there

	used   atomic.Bool  // since the goroutine last looked
	size   atomic.Int64 // how many processes there are, as last known; 0: not yet
	toldAt int64        // when it was last logged that Redis refuses the beats; 0: never

	// With the fleet's lock. Times are those of nanos.
	usedAt    int64
	beatAt    int64 // when the next beat is due
	beats     int   // up to earlyBeats
	heard     int64 // how many processes the last beat was told of
	settledAt int64 // when those whom Redis did not answer have all beaten again; 0: it always did
}

const (
	// beatsInSpan is how often a process beats in the time for which one beat counts; that is three seconds at least.
	beatsInSpan  = 3
	shortestBeat = time.Second
	// earlyBeats are the first ones, which follow each other faster: where all processes start at once, the first know of few others.
	earlyBeats = 3
	// beatsAtOnce bounds the beats of a Client on their way.
	beatsAtOnce = 64
	// longestBeat is how long a beat, and to leave, may take, however long the limiter's timeout is: else one would keep the others.
	longestBeat = time.Second
	// beatAgain is when a beat that failed is tried again, and beatRefused one that was not sent, if the breaker does not say later.
	beatAgain   = 250 * time.Millisecond
	beatRefused = 50 * time.Millisecond
	// idleLeast is how long a limiter is not used before its process is counted no more, or as long as what was granted matters, up to
	// idleMost: those who use it rarely share its quota too.
	idleLeast = 10 * time.Minute
	idleMost  = 24 * time.Hour
)

func newFleet(e *executor) *fleet {
	return &fleet{
		executor:  e,
		process:   rand.Text(),
		beating:   make(map[*presence]bool),
		byLimiter: make(map[string]*presence),
		woken:     make(chan struct{}, 1),
	}
}

// of is the presence of this process among those that share a limiter: one for all that have its name.
func (f *fleet) of(limiter string, keys keySpace, c limiterConfig, idle time.Duration) *presence {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.byLimiter[limiter]; known != nil {
		return known
	}
	p := &presence{
		fleet:   f,
		limiter: limiter,
		timeout: min(c.timeout, longestBeat),
		assumed: max(c.fleetSize, 1),
		idle:    idle,
		key:     keys.head + ":" + kindFleet + "w:{" + limiter + "}",
	}
	f.byLimiter[limiter] = p
	return p
}

// kindFleet names the set of processes, and the version of its layout.
const kindFleet = "fl1"

// use says that the limiter is in use.
func (p *presence) use() {
	if !p.used.Load() && p.used.CompareAndSwap(false, true) {
		p.fleet.join(p)
	}
}

// fleetSize is how many processes share the limiter, as last known; before anything is known, as was said.
func (p *presence) fleetSize() int64 {
	if n := p.size.Load(); n > 0 {
		return n
	}
	return p.assumed
}

// sizes are how many processes share each limiter in use, by its name.
func (f *fleet) sizes() map[string]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	sizes := make(map[string]int64, len(f.beating))
	for p := range f.beating {
		sizes[p.limiter] = p.fleetSize()
	}
	return sizes
}

// join has this process beat for a limiter, if it does not.
func (f *fleet) join(p *presence) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hasLeft || f.beating[p] {
		return
	}
	f.beating[p] = true
	p.beatAt = nanos()
	heap.Push(&f.queue, p)
	if !f.isBeating {
		ended := make(chan struct{})
		if f.isBeating = f.executor.inBackground(func() { defer close(ended); f.keepBeating() }); f.isBeating {
			f.ended = ended
		}
	}
	f.wake()
}

func (f *fleet) wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// leave has this process counted no more. It waits until Redis knows, or does not answer, at most for longestBeat.
func (f *fleet) leave() {
	f.mu.Lock()
	f.hasLeft = true
	ended := f.ended
	f.mu.Unlock()
	f.wake()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-time.After(longestBeat):
	}
}

// keepBeating beats for the limiters in use, and leaves the others.
func (f *fleet) keepBeating() {
	for {
		next := f.look()
		switch {
		case len(next.idle) > 0:
			leaveInChunks(next.idle)
		case len(next.due) > 0:
			_ = atOnce(len(next.due), func(i int) error { return next.due[i].beat() })
		case next.isOver:
			return
		default:
			select {
			case <-time.After(next.wait):
			case <-f.woken:
			}
		}
	}
}

// agenda is what there is to be done.
type agenda struct {
	idle   []*presence   // are not in use any more, and no longer among those that are
	due    []*presence   // are to beat; they are queued again when they have
	wait   time.Duration // until the next is
	isOver bool          // none is in use
}

// look finds what there is to be done.
func (f *fleet) look() agenda {
	f.mu.Lock()
	defer f.mu.Unlock()
	var next agenda
	if f.hasLeft {
		next.idle = slices.Collect(maps.Keys(f.beating))
		clear(f.beating)
		f.queue = nil
	}
	now := nanos()
	for len(f.queue) > 0 && f.queue[0].beatAt <= now && len(next.due) < beatsAtOnce {
		p := heap.Pop(&f.queue).(*presence)
		if p.used.Swap(false) {
			p.usedAt = now
		}
		if now-p.usedAt > int64(p.idle) {
			next.idle = append(next.idle, p)
			delete(f.beating, p)
		} else {
			next.due = append(next.due, p)
		}
	}
	next.wait = idleLeast
	if len(f.queue) > 0 {
		next.wait = time.Duration(f.queue[0].beatAt - now)
	}
	if len(f.beating) == 0 && len(next.idle) == 0 {
		next.isOver, f.isBeating = true, false
	}
	return next
}

// beatQueue are presences by when they are to beat, as container/heap wants it.
type beatQueue []*presence

func (q beatQueue) Len() int           { return len(q) }
func (q beatQueue) Less(i, j int) bool { return q[i].beatAt < q[j].beatAt }
func (q beatQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *beatQueue) Push(p any)        { *q = append(*q, p.(*presence)) }
func (q *beatQueue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	*q = (*q)[:last]
	return p
}

// leaveInChunks has this process counted no more by some limiters at once, then by the next. Once that fails, or takes too long, it is
// counted by the rest until their beats are over.
func leaveInChunks(all []*presence) {
	begin := nanos()
	for some := range slices.Chunk(all, beatsAtOnce) {
		if atOnce(len(some), func(i int) error { return some[i].leave() }) != nil || nanos()-begin > int64(longestBeat) {
			return
		}
	}
}

// beat notes in Redis that this process is there. Those that are, are as many as the last two beats say at most: the other processes
// may have to put their beats right too. While Redis did not answer nobody could beat, and until all have again there are as many
// as before.
func (p *presence) beat() error {
	f := p.fleet
	said, err := f.executor.call(context.Background(), p.timeout, order{
		script: &fleetBeat, keys: []any{p.key}, lead: []any{f.process},
	})
	now := nanos()
	if errors.Is(err, ErrConfiguration) && (p.toldAt == 0 || now-p.toldAt > int64(time.Minute)) {
		p.toldAt = now
		apart(func() { f.executor.reporter.logFleet(p.limiter, p.fleetSize(), err) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.queueLocked(p)
	if err != nil {
		breaker := f.executor.lanes.of(p.key).breaker
		p.settledAt = now + int64(f.executor.lanes.probe*5/4+shortestBeat+p.timeout)
		pause := beatAgain
		if breaker.isOpen() {
			pause = max(breaker.wait(), beatRefused)
		}
		p.beatAt = now + int64(pause)
		return err
	}
	size := max(said.own[0], p.heard, 1)
	if p.beats < earlyBeats {
		size = max(size, p.assumed)
	}
	if p.settledAt != 0 && now < p.settledAt {
		size = max(size, p.size.Load())
	}
	p.heard = said.own[0]
	p.size.Store(size)
	beat := time.Duration(said.own[1]) * time.Microsecond / beatsInSpan
	if p.beats < earlyBeats {
		p.beats++
		beat = shortestBeat / (earlyBeats + 1)
	}
	p.beatAt = now + int64(max(beat-mathrand.N(beat/10+1), beatRefused))
	return nil
}

// queueLocked has a presence beat again when it is due.
func (f *fleet) queueLocked(p *presence) {
	if f.beating[p] {
		heap.Push(&f.queue, p)
	}
}

// leave has this process counted no more by a limiter.
func (p *presence) leave() error {
	return p.fleet.executor.plain(context.Background(), p.timeout, p.key, "zrem", p.key, p.fleet.process)
}

// matters is for how long the processes that use a limiter share its quota: as long as what was granted under its plan may matter, within
// idleLeast and idleMost.
func (p *preparedPlan) matters() time.Duration {
	longest := idleLeast
	for _, one := range p.each() {
		longest = max(longest, min(one.lasts, idleMost))
	}
	return longest
}
