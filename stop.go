package ration

import "context"

// stop is takes of one key, plan and cost, which are filled together; or any other order by itself.
type stop struct {
	order order // of the first call
	calls callQueue
	next  *stop // of the errand
}

// isWanted says that somebody waits for an answer still.
func (s *stop) isWanted() bool {
	for c := s.calls.first; c != nil; c = c.behind {
		if c.isWaiting() {
			return true
		}
	}
	return false
}

// answered hands back the calls with what Redis answered to all of them.
func (s *stop) answered(f *flush, answer []int64) {
	if s.calls.n == 1 {
		if c := s.calls.pop(); !f.finish(c, answer, answer, nil) {
			f.leave(c, answer, nil)
		}
		return
	}
	if _, err := s.order.take.afterTake(answer, s.order.cost, int64(s.calls.n)); err != nil {
		s.failed(f, err)
		return
	}
	s.share(f, answer)
}

// share gives each of the calls its part of an answer to all: those whose callers wait are granted first, in the order they came, and
// what is left after them is for what the others have left behind.
func (s *stop) share(f *flush, answer []int64) {
	var left callQueue
	nth := int64(0)
	of := func() []int64 { return s.order.take.answerOf(answer, s.order.cost, nth) }
	for c := s.calls.pop(); c != nil; c = s.calls.pop() {
		if f.finish(c, of(), answer, nil) {
			nth++
		} else {
			left.push(c)
		}
	}
	for c := left.pop(); c != nil; c = left.pop() {
		f.leave(c, of(), nil)
		nth++
	}
}

// failed hands back the calls with an error, those that have not been yet.
func (s *stop) failed(f *flush, err error) {
	if s.calls.n == 0 {
		return
	}
	if !isAnswered(err) {
		f.batcher.executor.slots.doubt(context.Background())
	}
	for c := s.calls.pop(); c != nil; c = s.calls.pop() {
		if !f.finish(c, nil, nil, err) {
			if !isAnswered(err) {
				c.lane.breaker.learn(err)
			}
			f.leave(c, nil, err)
		}
	}
}
