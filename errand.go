package ration

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// errand is one command, and the calls that it fills: one call, or takes of one key, plan and cost.
type errand struct {
	flush   *flush
	order   order // of the first call
	calls   callQueue
	script  *script // nil: a plain command
	command command
}

// prepare makes the command.
func (r *errand) prepare() {
	r.script, r.command = r.order.scriptFor(r.calls.n), r.order.commandFor(r.calls.n)
	*r.command.context() = r.flush.context
}

// isToBeSentAgain says whether an error means that the script did not run, and that it should be sent once more: in full, where Redis does
// not know it, or when its keys are no longer on their way from one node of a cluster to another.
func (r *errand) isToBeSentAgain(err error) bool {
	return err != nil && r.script != nil && (redis.HasErrorPrefix(err, "NOSCRIPT") || isOnTheMove(err))
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

// sendAgain sends the command until Redis has answered otherwise than that the script did not run, or nobody waits. It answers the last
// error.
func (r *errand) sendAgain(err error) error {
	e, known := r.flush.batcher.executor, true
	for pause := firstPause; r.isToBeSentAgain(err) && r.isWanted(); {
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			if !known {
				return err
			}
			r.command, known = inFull(r.command, r.script), false
		} else {
			r.sleep(pause, err)
			if !r.isWanted() {
				return err
			}
			r.command = r.command.Clone().(command)
			pause = min(2*pause, longestPause)
		}
		err = e.process(r.command)
	}
	return err
}

// isWanted says that somebody waits for an answer still.
func (r *errand) isWanted() bool {
	for c := r.calls.first; c != nil; c = c.behind {
		if c.isWaiting() {
			return true
		}
	}
	return false
}

// sleep pauses because of an error, as long as anybody waits.
func (r *errand) sleep(pause time.Duration, because error) {
	for c := r.calls.first; c != nil; c = c.behind {
		c.again.Store(&because)
	}
	select {
	case <-time.After(pause):
	case <-r.flush.gone:
	}
}

// answered ends the errand by how its command ended.
func (r *errand) answered(err error) {
	if err != nil {
		// The answer is not looked at: a hook that returned early may still be writing it.
		r.failed(refused(err))
		return
	}
	answer := r.command.answer()
	if r.script != nil {
		if err := r.script.checkFields(answer); err != nil {
			r.failed(err)
			return
		}
	}
	if r.calls.n == 1 {
		if c := r.calls.pop(); !r.flush.finish(c, answer, answer, nil) {
			r.leave(c, answer, nil)
		}
		return
	}
	if _, err := r.order.take.afterTake(answer, r.order.cost, int64(r.calls.n)); err != nil {
		r.failed(err)
		return
	}
	r.share(answer)
}

// share gives each of the calls its part of an answer to all: those whose callers wait are granted first, in the order they came, and
// what is left after them is for what the others have left behind.
func (r *errand) share(answer []int64) {
	var left callQueue
	nth := int64(0)
	of := func() []int64 { return r.order.take.answerOf(answer, r.order.cost, nth) }
	for c := r.calls.pop(); c != nil; c = r.calls.pop() {
		if r.flush.finish(c, of(), answer, nil) {
			nth++
		} else {
			left.push(c)
		}
	}
	for c := left.pop(); c != nil; c = left.pop() {
		r.leave(c, of(), nil)
		nth++
	}
}

// failed ends the errand with an error for all its calls, if it has not ended.
func (r *errand) failed(err error) {
	if r.calls.n == 0 {
		return
	}
	e := r.flush.batcher.executor
	if !isAnswered(err) {
		e.slots.doubt(context.Background())
	}
	for c := r.calls.pop(); c != nil; c = r.calls.pop() {
		if !r.flush.finish(c, nil, nil, err) {
			if !isAnswered(err) {
				c.lane.breaker.learn(err)
			}
			r.leave(c, nil, err)
		}
	}
}

// leave hands on how a call ended to what its caller has left behind, which may take as long as a call.
func (r *errand) leave(c *call, answer []int64, err error) {
	e := r.flush.batcher.executor
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		c.late.end(answer, err)
	}()
}
