package ration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// executor runs orders through the user's redis client. A caller waits for its answer on a channel, so that the wait ends
// in time whatever the client does: by default go-redis does not apply a context's deadline to a socket, and where it does,
// the deadline closes the connection. The command itself runs in a goroutine, as long as the client lets it.
type executor struct {
	rdb      redis.UniversalClient
	reporter *reporter
	slots    slotMap
	lanes    *lanes
	calls    sync.Pool // *call
	flushes  sync.Pool // *flush

	starting sync.RWMutex // held to read while a call joins a batcher, to write while the executor is closed
	closed   chan struct{}
	running  sync.WaitGroup
}

func newExecutor(rdb redis.UniversalClient, c clientConfig, r *reporter) *executor {
	e := &executor{
		rdb:      rdb,
		reporter: r,
		closed:   make(chan struct{}),
	}
	e.lanes = newLanes(e, c)
	e.calls.New = func() any { return newCall(e) }
	e.flushes.New = newFlush
	e.slots.client, _ = rdb.(stateReloader)
	return e
}

// answered is what came of an order.
type answered struct {
	own    []int64 // the integers that the script replies
	latest []int64 // to the last of the takes that were filled together
	// late is what is to come, where the order ended before the script did.
	late *lateAnswer
}

// call fills an order, unless the breaker on its way is open.
func (e *executor) call(ctx context.Context, timeout time.Duration, o order) (a answered, err error) {
	lane := e.lanes.of(o.storedKey())
	if err := lane.refused(ctx); err != nil { // before anything is made: in an outage this is the way of nearly all
		return answered{}, err
	}
	c := e.newCall(ctx, timeout, lane, o)
	if err = c.ctx.Err(); err == nil { // whatever the breaker says
		err = c.lane.run(c)
	}
	if c.state.Load() == callLeft {
		a.late = c.late
	} else if err == nil {
		a.own, a.latest = c.answer, c.latest
	}
	e.recycle(c)
	return a, err
}

// undo runs a script that takes back what another has done, whatever the breaker says, for Redis has answered just now. It waits for
// longer than a caller would. It is called by goroutines that close waits for, so it runs while the executor is closed, too.
func (e *executor) undo(o order) error {
	c := e.newCall(context.Background(), undoTimeout, e.lanes.of(o.storedKey()), o)
	c.isUndo = true
	err := e.wait(c)
	e.recycle(c)
	return err
}

const undoTimeout = time.Second

// delete deletes keys; Redis frees what they held in the background.
func (e *executor) delete(ctx context.Context, timeout time.Duration, keys ...any) error {
	_, err := e.call(ctx, timeout, order{keys: keys, args: append([]any{"unlink"}, keys...)})
	return err
}

// probe asks the node of a key for a sign of life, if the breaker lets it. A fault is one too.
func (e *executor) probe(ctx context.Context, timeout time.Duration, key string) error {
	if err := e.plain(ctx, timeout, key, "exists", key); !isAnswered(err) {
		return err
	}
	return nil
}

// plain runs a command of a key whose answer does not matter.
func (e *executor) plain(ctx context.Context, timeout time.Duration, key string, args ...any) error {
	_, err := e.call(ctx, timeout, order{keys: []any{key}, args: args})
	return err
}

// ping asks for a sign of life, whatever the breaker says.
func (e *executor) ping(ctx context.Context, timeout time.Duration) error {
	c := e.newCall(ctx, timeout, e.lanes.one, order{args: []any{"ping"}})
	err := c.ctx.Err()
	if err == nil {
		err = e.wait(c)
	}
	e.recycle(c)
	return err
}

// wait has a call sent and waits for its answer, for the timeout and for the context.
func (e *executor) wait(c *call) error {
	begin := nanos()
	c.isTimed = true
	c.timer.Reset(c.patience())
	if !e.join(c) {
		return ErrClosed
	}
	var ended error
	for ended == nil {
		select {
		case <-c.done:
			if c.isFinished() {
				return c.err
			}
			isSent := c.lane.batcher.urge(c)
			if left := c.timeout - time.Duration(nanos()-begin); left > 0 {
				if !isSent {
					left = min(left, c.patience())
				}
				c.timer.Reset(left)
				continue
			}
			e.reporter.timeouts.Add(1)
			if c.lane.batcher.withdraw(c) {
				return c.notSentError()
			}
			e.slots.doubt(c.ctx)
			ended = c.timeoutError()
		case <-c.ctx.Done():
			ended = endOf(c.ctx)
			if c.lane.batcher.withdraw(c) {
				return ended
			}
		}
	}
	c.late = &lateAnswer{}
	if c.leave() {
		return ended
	}
	// The answer came in the same moment: a grant is not thrown away.
	c.late, c.isOverlapped = nil, true
	return c.err
}

// orBackground is a context that is not nil.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// join has a call sent, unless the executor is closed.
func (e *executor) join(c *call) bool {
	e.starting.RLock()
	defer e.starting.RUnlock()
	if e.isClosed() && !c.isUndo {
		return false
	}
	c.lane.batcher.join(c)
	return true
}

// inBackground does something in a goroutine that close waits for, unless the executor is closed.
func (e *executor) inBackground(do func()) (started bool) {
	e.starting.RLock()
	defer e.starting.RUnlock()
	if e.isClosed() {
		return false
	}
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		do()
	}()
	return true
}

// process sends a command and reads its answer.
func (e *executor) process(cmd command) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	err = e.rdb.Process(cmd.context(), cmd)
	tryError(err)
	return err
}

// pipeline sends the commands of errands at once, and reads their answers.
func (e *executor) pipeline(ctx callContext, errands []errand) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	pipe := e.rdb.Pipeline()
	for i := range errands {
		_ = pipe.Process(&ctx, errands[i].command) // only adds it
	}
	_, err = pipe.Exec(&ctx) // a hook may keep the context
	tryError(err)
	if err != nil && isOfCommands(err) {
		for i := range errands {
			tryError(errands[i].command.Err())
		}
	}
	return err
}

// learn learns the node of a key.
func (e *executor) learn(ctx context.Context, key string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	e.lanes.learn(ctx, key)
	return nil
}

// tryError panics here, where that is recovered from, if an error of a hook panics when it is looked at, as a nil pointer does.
func tryError(err error) {
	if err != nil {
		_ = err.Error()
		_, _ = isAnswer(err), isOfCommands(err)
	}
}

// panicked is the error of a panic in the redis client.
func panicked(p any) error { return fmt.Errorf("panic in the redis client: %v", p) }

// isAnswer says whether an error is one that Redis answered.
func isAnswer(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// endOf is what a context that is done ended with; never nil, whatever the context.
func endOf(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Canceled
}

func (e *executor) isClosed() bool {
	select {
	case <-e.closed:
		return true
	default:
		return false
	}
}

func (e *executor) newCall(ctx context.Context, timeout time.Duration, lane *lane, o order) *call {
	c := e.calls.Get().(*call)
	c.ctx, c.timeout, c.lane, c.order = orBackground(ctx), timeout, lane, o
	return c
}

// recycle keeps a call for later use, unless the flush that it was left in does.
func (e *executor) recycle(c *call) {
	if c.state.Load() != callLeft && c.reset() {
		e.calls.Put(c)
	}
}

// close refuses further calls, and those that have not been sent, and waits for those on their way, at most for grace.
func (e *executor) close(grace time.Duration) {
	e.starting.Lock()
	if !e.isClosed() {
		close(e.closed)
		e.lanes.refuse(ErrClosed)
	}
	e.starting.Unlock()

	idle := make(chan struct{})
	go func() {
		e.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-time.After(grace):
	}
}
