package ration

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// flush is what goes to Redis in one round trip: takes of one key, plan and cost are one stop, stops under one plan may be one command, and
// all commands are one pipeline. It carries the values of the context of its first call.
//
// Each call keeps its own deadline and its own error. What came of a flush equals what had come of its calls one after the other, in some
// order: those filled together when the first of them came. So none is ever passed over.
type flush struct {
	batcher *batcher
	n       int // calls that it has places for
	boarded int // calls at first; with the batcher's lock
	calls   callQueue
	stops   []stop
	errands []errand
	merged  map[mergeKey]int // stops of takes
	open    map[openKey]int  // errands that more stops may be added to
	began   int64            // nanos
	at      int              // in the batcher's list
	work    func()

	context callContext
	waiting atomic.Int64  // calls whose callers wait
	gone    chan struct{} // closed when none does
	isKept  bool          // by a call that somebody has left, so that the flush is not used again
}

// openKey is what the stops of one errand have in common.
type openKey struct {
	plan *preparedPlan
	cost int64
}

// maxKeysPerCall is the most stops of an errand.
const maxKeysPerCall = 32

func newFlush() any {
	f := &flush{gone: make(chan struct{}), merged: make(map[mergeKey]int), open: make(map[openKey]int)}
	f.work = f.run
	return f
}

// run sends the calls and hands them back. What it does at the end it does even if a hook of the redis client ends the goroutine.
func (f *flush) run() {
	defer f.batcher.executor.running.Done()
	defer f.batcher.land(f)
	defer f.end()
	f.sort()
	for begin := 0; begin < len(f.errands); {
		end := len(f.errands)
		f.errands = append(f.errands, f.carry(f.errands[begin:])...)
		begin = end
	}
}

// sort makes the errands.
func (f *flush) sort() {
	f.stops = slices.Grow(f.stops, f.calls.n) // so that none moves
	for c := f.calls.pop(); c != nil; c = f.calls.pop() {
		f.stopOf(&c.order).calls.push(c)
	}
	for i := range f.stops {
		f.errandOf(&f.stops[i].order).add(&f.stops[i])
	}
}

// stopOf is where an order is filled.
func (f *flush) stopOf(o *order) *stop {
	if o.take != nil && f.n > 1 {
		if with, found := f.merged[o.mergeKey()]; found {
			return &f.stops[with]
		}
		f.merged[o.mergeKey()] = len(f.stops)
	}
	f.stops = append(f.stops, stop{order: *o})
	return &f.stops[len(f.stops)-1]
}

// errandOf is by what an order is filled.
func (f *flush) errandOf(o *order) *errand {
	if most := int(f.batcher.keys.Load()); o.take != nil && o.take.many != nil && most > 1 && len(f.stops) > 1 {
		key := openKey{o.take, o.cost}
		if with, found := f.open[key]; found && f.errands[with].n < most {
			return &f.errands[with]
		}
		f.open[key] = len(f.errands)
	}
	f.errands = append(f.errands, errand{flush: f})
	return &f.errands[len(f.errands)-1]
}

// carry sends errands and hands back their calls, but for those that are to be sent by themselves.
func (f *flush) carry(errands []errand) (apart []errand) {
	err := f.send(errands)
	for i := range errands {
		r := &errands[i]
		err := r.errorOf(err, len(errands))
		if r.isToBeSentAgain(err) && r.isWanted() {
			f.sendApart(r, err)
		} else {
			apart = append(apart, r.answered(err)...)
		}
	}
	return apart
}

// send sends the commands of errands.
func (f *flush) send(errands []errand) error {
	e := f.batcher.executor
	for i := range errands {
		r := &errands[i]
		r.prepare()
		if err := e.learn(r.command.context(), r.first.order.storedKey()); err != nil {
			return err
		}
	}
	if len(errands) == 1 {
		return e.process(errands[0].command)
	}
	return e.pipeline(f.context, errands)
}

// isOfCommands says that an error of a pipeline is that of one of its commands, or of their connection, so that the commands have their
// own. Else a hook has ended it, and may still be writing to them.
func isOfCommands(err error) bool {
	_, isNetwork := errors.AsType[*net.OpError](err)
	return isNetwork || isAnswer(err) || errors.Is(err, io.EOF) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}

// sendApart sends an errand again while the others are handed back, and then what is to be sent by itself of it.
func (f *flush) sendApart(r *errand, err error) {
	e, n := f.batcher.executor, r.calls()
	errands := []errand{*r}
	*r = errand{flush: f}
	if !f.isKept { // by another apart it may be read already
		f.isKept = true
	}
	f.n -= n
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		defer f.batcher.release(n)
		defer func() { failAll(errands, errUnfinished) }()
		errands = append(errands, errands[0].answered(errands[0].sendAgain(err))...)
		for i := 1; i < len(errands); i++ {
			r := &errands[i]
			r.prepare()
			r.answered(r.sendAgain(e.process(r.command)))
		}
	}()
}

// end ends what a hook has left without an answer.
func (f *flush) end() { failAll(f.errands, errUnfinished) }

func failAll(errands []errand, err error) {
	for i := range errands {
		errands[i].failed(err)
	}
}

// finish hands a call back to its caller, unless that has left.
func (f *flush) finish(c *call, answer, latest []int64, err error) bool {
	if c.finish(answer, latest, err) {
		f.waiting.Add(-1)
		return true
	}
	if !f.isKept { // by an errand apart it is already
		f.isKept = true
	}
	return false
}

// leave hands on how a call ended to what its caller has left behind, which may take as long as a call.
func (f *flush) leave(c *call, answer []int64, err error) {
	e := f.batcher.executor
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		c.late.end(answer, err)
	}()
}

// leftBy says that the caller of one of its calls has left.
func (f *flush) leftBy() {
	if f.waiting.Add(-1) == 0 {
		close(f.gone)
	}
}

// recycle keeps the flush for later use, unless something of it is kept.
func (f *flush) recycle() {
	if f.isKept {
		return
	}
	clear(f.stops)
	clear(f.errands)
	clear(f.merged)
	clear(f.open)
	f.stops, f.errands, f.context, f.n = f.stops[:0], f.errands[:0], callContext{}, 0
	f.batcher.executor.flushes.Put(f)
}
