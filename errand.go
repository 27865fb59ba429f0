package ration

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// errand is one command, and the stops that it makes: one; or takes of several keys under one plan, of one cost.
type errand struct {
	flush       *flush
	first, last *stop
	n           int     // stops
	script      *script // nil: a plain command
	command     command
}

// add adds a stop.
func (r *errand) add(s *stop) {
	if r.first == nil {
		r.first = s
	} else {
		r.last.next = s
	}
	r.last = s
	r.n++
}

// pop takes the first stop out; nil: there is none.
func (r *errand) pop() *stop {
	s := r.first
	if s != nil {
		r.first, s.next = s.next, nil
		r.n--
	}
	return s
}

// prepare makes the command.
func (r *errand) prepare() {
	o := &r.first.order
	if r.n > 1 {
		r.script, r.command = o.take.many, commandForMany(r.first, r.n)
	} else {
		r.script, r.command = o.scriptFor(r.first.calls.n), o.commandFor(r.first.calls.n)
	}
	*r.command.context() = r.flush.context
}

// commandForMany is the command that makes n stops.
func commandForMany(first *stop, n int) command {
	plan := first.order.take
	args := make([]any, 0, 3+n+1+len(plan.args)+n)
	args = append(args, "evalsha", plan.many.digest, numberOfKeys[n])
	for s := first; s != nil; s = s.next {
		args = append(args, s.order.keys[0])
	}
	args = append(append(args, plan.cost(first.order.cost)), plan.args...)
	for s := first; s != nil; s = s.next {
		args = append(args, int64(s.calls.n))
	}
	return newCommandOf(args)
}

// calls is how many calls it is for.
func (r *errand) calls() (n int) {
	for s := r.first; s != nil; s = s.next {
		n += s.calls.n
	}
	return n
}

// errorOf is how it ended, of so many, when sending them ended with an error.
func (r *errand) errorOf(err error, of int) error {
	if of == 1 || err == nil || !isOfCommands(err) {
		return err
	}
	return r.command.Err()
}

// isToBeSentAgain says whether an error means that the script did not run, and that it should be sent once more: in full, where Redis does
// not know it, or when its keys are no longer on their way from one node of a cluster to another.
func (r *errand) isToBeSentAgain(err error) bool {
	if err == nil || r.script == nil || r.n > 1 && isOfKeysTogether(err) {
		return false
	}
	return redis.HasErrorPrefix(err, "NOSCRIPT") || isOnTheMove(err)
}

// isOnTheMove says that a script did not run, or had done nothing yet, because its keys are on their way from one node of a
// cluster to another: some of several are here and some are not (TRYAGAIN); or a key was here when the node looked for it, and
// had expired when the script did, in the same millisecond, so that it is the other node's to make anew. Every script looks
// at all its keys before it writes any, but for those for several keys, which reply what became of each.
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
	for s := r.first; s != nil; s = s.next {
		if s.isWanted() {
			return true
		}
	}
	return false
}

// sleep pauses because of an error, as long as anybody waits.
func (r *errand) sleep(pause time.Duration, because error) {
	for s := r.first; s != nil; s = s.next {
		for c := s.calls.first; c != nil; c = c.behind {
			c.again.Store(&because)
		}
	}
	select {
	case <-time.After(pause):
	case <-r.flush.gone:
	}
}

// answered ends the errand by how its command ended, but for the stops that are to be made by themselves.
func (r *errand) answered(err error) (apart []errand) {
	switch {
	case err == nil:
		// Only now the answer is looked at: a hook that returned early may still be writing it.
		return r.handBack(r.command.answer())
	case r.n > 1 && isOfKeysTogether(err):
		if redis.HasErrorPrefix(err, "CROSSSLOT") {
			r.flush.batcher.keys.Store(1)
		}
		for s := r.pop(); s != nil; s = r.pop() {
			apart = append(apart, alone(r.flush, s))
		}
		return apart
	default:
		r.failed(refused(err))
		return nil
	}
}

// isOfKeysTogether says that a script did not run because of one of its keys, or because they are not all of one slot, or of one node.
func isOfKeysTogether(err error) bool {
	return redis.HasErrorPrefix(err, "CROSSSLOT") || redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "TRYAGAIN")
}

// alone is an errand with one stop only.
func alone(f *flush, s *stop) errand {
	r := errand{flush: f}
	r.add(s)
	return r
}

// handBack hands back the calls with what Redis answered, but for the stops that it could not decide.
func (r *errand) handBack(answer []int64) (apart []errand) {
	if r.n == 1 {
		if r.script != nil {
			if err := r.script.checkFields(answer); err != nil {
				r.failed(err)
				return nil
			}
		}
		r.first.answered(r.flush, answer)
		return nil
	}
	fields := r.first.order.take.take.fields
	if err := r.script.checkLength(answer, r.n*fields); err != nil {
		r.failed(err)
		return nil
	}
	for s := r.pop(); s != nil; s = r.pop() {
		switch answer[0] {
		case undecided:
			apart = append(apart, alone(r.flush, s))
		case undecidedLate:
			s.failed(r.flush, unavailable(&configurationError{errLate}))
		default:
			s.answered(r.flush, answer[:fields:fields])
		}
		answer = answer[fields:]
	}
	return apart
}

// What the script for several keys replies of one that it could not decide.
const (
	undecided     = -1 // for something else is stored there, say: nothing was charged, and asked for alone it has its own error
	undecidedLate = -2 // it may be charged
)

// errLate is why that is.
const errLate = lateError("the script failed on this key when it may have charged it: may the user of Redis run every command, under its own name?")

type lateError string

func (e lateError) Error() string { return string(e) }

// RedisError marks it as an answer of Redis.
func (lateError) RedisError() {}

// failed ends the errand with an error for all its calls that have not ended.
func (r *errand) failed(err error) {
	for s := r.first; s != nil; s = s.next {
		s.failed(r.flush, err)
	}
}
