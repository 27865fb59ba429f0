package ration

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// call is one command on its way. While it runs it belongs to the goroutine that runs it; then to its caller, if that still
// waits, who returns it to the pool.
type call struct {
	ctx     context.Context
	timeout time.Duration
	key     string // stored; empty: of no key
	lane    *lane
	script  *script // nil: a plain command
	command command

	answer []int64
	err    error

	isUndo bool                  // see executor.undo
	again  atomic.Pointer[error] // why the script was to be sent again, at last
	state  atomic.Int32
	late   *lateAnswer             // of a call whose caller has left
	ask    func() ([]int64, error) // starts the call in the executor and waits
	work   func()                  // runs the call in the executor
	done   chan struct{}           // receives once, when the call has finished and its caller waits
	gone   chan struct{}           // closed when the caller no longer waits; the call is then not used again
	timer  *time.Timer
}

// The states of a call.
const (
	callWaiting int32 = iota
	callFinished
	callLeft // its caller no longer waits
)

func newCall(e *executor) *call {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	c := &call{
		done:  make(chan struct{}, 1),
		gone:  make(chan struct{}),
		timer: timer,
	}
	c.ask = func() ([]int64, error) { return e.wait(c) }
	c.work = func() { e.run(c) }
	return c
}

func (c *call) reset() {
	c.timer.Stop()
	c.ctx, c.key, c.lane, c.script, c.command, c.answer, c.err = nil, "", nil, nil, nil, nil, nil
	c.late, c.isUndo = nil, false
	c.again.Store(nil)
	c.state.Store(callWaiting)
}

// leave ends the caller's wait, unless the call has finished.
func (c *call) leave() bool {
	if !c.state.CompareAndSwap(callWaiting, callLeft) {
		return false
	}
	c.timer.Stop()
	close(c.gone)
	return true
}

// finish hands the call back to its caller; or, if that has left, its end to what the caller left behind.
func (c *call) finish() {
	if c.state.CompareAndSwap(callWaiting, callFinished) {
		c.done <- struct{}{}
		return
	}
	if c.err == nil && c.script != nil {
		c.err = c.script.checkFields(c.answer)
	}
	c.late.end(c.answer, c.err)
}

// run sends the command and reads its answer. A script is sent once more only when Redis said that it did not run: in full,
// where Redis does not know it, and after a pause, where its keys are on their way from one node of a cluster to another.
func (c *call) run(e *executor) {
	c.err = errUnfinished
	defer func() {
		if p := recover(); p != nil {
			c.err = unavailable(fmt.Errorf("panic in the redis client: %v", p))
		}
	}()
	e.lanes.learn(c)
	cmd, known := c.command, true
	err := e.rdb.Process(cmd.context(), cmd)
	for pause := firstPause; err != nil && c.script != nil && c.state.Load() != callLeft; {
		switch {
		case known && redis.HasErrorPrefix(err, "NOSCRIPT"):
			cmd, known = inFull(cmd, c.script), false
		case isOnTheMove(err) && c.sleep(pause, err):
			cmd = cmd.Clone().(command)
			pause = min(2*pause, longestPause)
		default:
			c.err = refused(err)
			return
		}
		err = e.rdb.Process(cmd.context(), cmd)
	}
	if err != nil {
		// The answer is not looked at: a hook that returned early may still be writing it.
		c.err = refused(err)
		return
	}
	c.answer, c.err = cmd.answer(), nil
}

// isOnTheMove says that a script did not run, or had done nothing yet, because its keys are on their way from one node of a
// cluster to another: some of several are here and some are not (TRYAGAIN); or a key was here when the node looked for it, and
// had expired when the script did, in the same millisecond, so that it is the other node's to make anew. Every script looks
// at all its keys before it writes any.
func isOnTheMove(err error) bool {
	return redis.HasErrorPrefix(err, "TRYAGAIN") ||
		redis.HasErrorPrefix(err, "Script attempted to access a non local key") // go-redis takes ERR away
}

// The pauses before a script is sent again whose keys are on their way from one node to another.
const (
	firstPause   = time.Millisecond
	longestPause = 16 * time.Millisecond
)

// timeoutError is that of a call whose time is over. Where it was to be sent again, it says why, and that there was an answer.
func (c *call) timeoutError() error {
	ended := fmt.Errorf("%w: no answer within %v", ErrTimeout, c.timeout)
	if why := c.again.Load(); why != nil {
		ended = fmt.Errorf("%w: %w", ended, *why)
	}
	return unavailable(ended)
}

// sleep pauses because of an error, and says whether the caller still waits then.
func (c *call) sleep(pause time.Duration, because error) bool {
	c.again.Store(&because)
	select {
	case <-time.After(pause):
		return true
	case <-c.gone:
		return false
	}
}

// errNoPlace is wrapped by the error of a call that was not sent, for too many were on their way.
var errNoPlace = errors.New("no place")

// errUnfinished is the error of a call whose goroutine a hook of the redis client ended.
var errUnfinished = unavailable(errors.New("the redis client ended the call without an answer"))
