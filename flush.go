package ration

import (
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// flush is what goes to Redis in one round trip: takes of one key, plan and cost as one command, and all commands as one pipeline. It
// carries the values of the context of its first call.
//
// Each call keeps its own deadline and its own error. What came of a flush equals what had come of its calls one after the other, in some
// order: those filled together when the first of them came. So none is ever passed over.
type flush struct {
	batcher *batcher
	n       int // calls that it has places for
	calls   callQueue
	errands []errand
	merged  map[mergeKey]int // errands of takes
	began   int64            // nanos
	at      int              // in the batcher's list
	work    func()

	context callContext
	waiting atomic.Int64  // calls whose callers wait
	gone    chan struct{} // closed when none does
	isKept  bool          // by a call that somebody has left, so that the flush is not used again
}

func newFlush() any {
	f := &flush{gone: make(chan struct{}), merged: make(map[mergeKey]int)}
	f.work = f.run
	return f
}

// run sends the calls and hands them back. What it does at the end it does even if a hook of the redis client ends the goroutine.
func (f *flush) run() {
	defer f.batcher.executor.running.Done()
	defer f.batcher.land(f)
	defer f.end()
	f.sort()
	err := f.send()
	for i := range f.errands {
		r := &f.errands[i]
		if err := f.errorOf(r, err); r.isToBeSentAgain(err) && r.isWanted() {
			f.sendApart(r, err)
		} else {
			r.answered(err)
		}
	}
}

// sort makes the errands.
func (f *flush) sort() {
	for c := f.calls.pop(); c != nil; c = f.calls.pop() {
		at := len(f.errands)
		if c.order.take != nil && f.n > 1 {
			if with, found := f.merged[c.order.mergeKey()]; found {
				at = with
			} else {
				f.merged[c.order.mergeKey()] = at
			}
		}
		if at == len(f.errands) {
			f.errands = append(f.errands, errand{flush: f, order: c.order})
		}
		f.errands[at].calls.push(c)
	}
	for i := range f.errands {
		f.errands[i].prepare()
	}
}

// send sends the commands.
func (f *flush) send() error {
	e := f.batcher.executor
	for i := range f.errands {
		e.lanes.learn(f.errands[i].command.context(), f.errands[i].order.storedKey())
	}
	if len(f.errands) == 1 {
		return e.process(f.errands[0].command)
	}
	return e.pipeline(f)
}

// errorOf is how one of the commands ended, when sending ended with an error.
func (f *flush) errorOf(r *errand, err error) error {
	if len(f.errands) == 1 || err == nil || !isOfCommands(err) {
		return err
	}
	return r.command.Err()
}

// isOfCommands says that an error of a pipeline is that of one of its commands, or of their connection, so that the commands have their
// own. Else a hook has ended it, and may still be writing to them.
func isOfCommands(err error) bool {
	_, isNetwork := errors.AsType[*net.OpError](err)
	return isNetwork || isAnswer(err) || errors.Is(err, io.EOF) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}

// sendApart sends a command again while the others are handed back.
func (f *flush) sendApart(r *errand, err error) {
	apart, n := *r, r.calls.n
	r.calls = callQueue{}
	if !f.isKept { // by another apart it may be read already
		f.isKept = true
	}
	f.n -= n
	f.batcher.executor.running.Add(1)
	go func() {
		defer f.batcher.executor.running.Done()
		defer f.batcher.release(n)
		defer apart.failed(errUnfinished)
		apart.answered(apart.sendAgain(err))
	}()
}

// end ends what a hook has left without an answer.
func (f *flush) end() {
	for c := f.calls.pop(); c != nil; c = f.calls.pop() {
		f.errands = append(f.errands, errand{flush: f})
		f.errands[len(f.errands)-1].calls.push(c)
	}
	for i := range f.errands {
		f.errands[i].failed(errUnfinished)
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
	clear(f.errands)
	clear(f.merged)
	f.errands, f.context, f.n = f.errands[:0], callContext{}, 0
	f.batcher.executor.flushes.Put(f)
}
