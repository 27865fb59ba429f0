package ration

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// lateAnswer is how a call ended whose caller had left: it knows what is to be done about it by the time both have spoken.
type lateAnswer struct {
	mu     sync.Mutex
	ended  bool
	answer []int64
	err    error
	then   func(answer []int64, err error)
}

// end is said by the goroutine that ran the call.
func (l *lateAnswer) end(answer []int64, err error) {
	l.mu.Lock()
	l.ended, l.answer, l.err = true, answer, err
	then := l.then
	l.mu.Unlock()
	if then != nil {
		then(answer, err)
	}
}

// whenEnded is said by the caller: what is to be done. Where the call has ended already, it is done in the background of e.
func (l *lateAnswer) whenEnded(e *executor, then func(answer []int64, err error)) {
	l.mu.Lock()
	l.then = then
	ended := l.ended
	l.mu.Unlock()
	if ended {
		e.inBackground(func() { then(l.answer, l.err) })
	}
}

// mayHaveRun says that a script may have run, by the error that it ended with.
func mayHaveRun(err error) bool {
	failed, isNetwork := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, ErrBreakerOpen), errors.Is(err, ErrClosed), errors.Is(err, errNoPlace), isAnswer(err):
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return false // nobody waited any more, or for too long, for a connection to send it by
	case isNetwork:
		return failed.Op != "dial"
	default:
		return true
	}
}
