package ration

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// call is an order on its way, and who waits for it. It is in the queue of its lane, then in a flush, which hands it back to its caller;
// or, where that has left meanwhile, hands on the answer to what the caller left behind. The caller returns it to the pool, unless it
// left the call in a flush.
type call struct {
	ctx     context.Context
	timeout time.Duration
	lane    *lane
	order   order

	answer []int64
	latest []int64 // the answer to the last of those that were filled together; else answer
	err    error

	isUndo       bool                  // see executor.undo
	isTimed      bool                  // the timer was started
	isOverlapped bool                  // it finished in the moment in which its caller wanted to leave
	again        atomic.Pointer[error] // why the script was to be sent again, at last
	state        atomic.Int32
	late         *lateAnswer              // of a call whose caller has left
	ask          func() (struct{}, error) // has the call sent, and waits
	done         chan struct{}            // receives when the call has finished and its caller waits, and when so much time is over that it looks again
	timer        *time.Timer              // has done receive

	before, behind *call  // in its queue
	flush          *flush // that carries it; with the batcher's lock until then
}

// The states of a call.
const (
	callWaiting int32 = iota
	callFinished
	callLeft // its caller no longer waits
)

func newCall(e *executor) *call {
	c := &call{done: make(chan struct{}, 2)}
	c.timer = time.AfterFunc(time.Hour, func() { c.done <- struct{}{} })
	c.timer.Stop()
	c.ask = func() (struct{}, error) { return struct{}{}, e.wait(c) }
	return c
}

// reset makes the call ready for later use, unless done may still receive something.
func (c *call) reset() (isReady bool) {
	if c.isTimed && !c.timer.Stop() || c.isOverlapped {
		return false
	}
	c.ctx, c.lane, c.order, c.answer, c.latest, c.err = nil, nil, order{}, nil, nil, nil
	c.late, c.isUndo, c.flush, c.isTimed = nil, false, nil, false
	c.again.Store(nil)
	c.state.Store(callWaiting)
	return true
}

// isFinished says that there is an answer, or an error.
func (c *call) isFinished() bool { return c.state.Load() == callFinished }

// isWaiting says that the caller waits still.
func (c *call) isWaiting() bool { return c.state.Load() == callWaiting }

// leave ends the caller's wait for a call in a flush, unless it has finished.
func (c *call) leave() bool {
	if !c.state.CompareAndSwap(callWaiting, callLeft) {
		return false
	}
	c.timer.Stop()
	c.flush.leftBy()
	return true
}

// finish hands the call back to its caller, unless that has left.
func (c *call) finish(answer, latest []int64, err error) bool {
	c.answer, c.latest, c.err = answer, latest, err
	if !c.state.CompareAndSwap(callWaiting, callFinished) {
		return false
	}
	c.done <- struct{}{}
	return true
}

// timeoutError is that of a call whose time is over. Where it was to be sent again, it says why, and that there was an answer.
func (c *call) timeoutError() error {
	ended := fmt.Errorf("%w: no answer within %v", ErrTimeout, c.timeout)
	if why := c.again.Load(); why != nil {
		ended = fmt.Errorf("%w: %w", ended, *why)
	}
	return unavailable(ended)
}

// notSentError is that of a call whose time was over before it was sent.
func (c *call) notSentError() error {
	return unavailable(fmt.Errorf("%w: %w within %v", ErrTimeout, errNoPlace, c.timeout))
}

// errNoPlace is wrapped by the error of a call that was not sent, for it waited for others on their way.
var errNoPlace = errors.New("no place among the calls in flight")

// errUnfinished is the error of a call whose goroutine a hook of the redis client ended.
var errUnfinished = unavailable(errors.New("the redis client ended the call without an answer"))
