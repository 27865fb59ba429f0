package ration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// executor runs commands through the user's redis client. A caller waits for its answer on a channel, so that the wait ends
// in time whatever the client does: by default go-redis does not apply a context's deadline to a socket, and where it does,
// the deadline closes the connection. The command itself runs in a goroutine, as long as the client lets it.
type executor struct {
	rdb      redis.UniversalClient
	reporter *reporter
	slots    slotMap
	lanes    *lanes
	calls    sync.Pool // *call

	starting sync.RWMutex // held to read while a command is started, to write while the executor is closed
	closed   chan struct{}
	running  sync.WaitGroup
}

func newExecutor(rdb redis.UniversalClient, maxInFlight int, b Breaker, r *reporter) *executor {
	e := &executor{
		rdb:      rdb,
		reporter: r,
		lanes:    newLanes(rdb, maxInFlight, b, r),
		closed:   make(chan struct{}),
	}
	e.calls.New = func() any { return newCall(e) }
	e.slots.client, _ = rdb.(stateReloader)
	return e
}

// call runs a script on keys: EVALSHA, and once more as EVAL where Redis does not know the script. The arguments are those
// that differ from call to call, then the plan's. It answers the integers that the script replies; or, where it ended before the
// script did, what is to come of that.
func (e *executor) call(
	ctx context.Context, timeout time.Duration, s *script, keys, lead, args []any,
) ([]int64, *lateAnswer, error) {
	key := keys[0].(string)
	lane := e.lanes.of(key)
	if err := lane.refused(ctx); err != nil { // before anything is made: in an outage this is the way of nearly all
		return nil, nil, err
	}
	answer, late, err := e.do(ctx, timeout, lane, key, s, newCommand(s, keys, lead, args))
	if err == nil {
		err = s.checkFields(answer)
	}
	return answer, late, err
}

// undo runs a script that takes back what another has done, whatever the breaker says, for Redis has answered just now. It waits for
// longer than a caller would. It is called by goroutines that close waits for, so it runs while the executor is closed, too.
func (e *executor) undo(s *script, keys, lead, args []any) {
	e.reporter.lateRefunds.Add(1)
	key := keys[0].(string)
	c := e.newCall(context.Background(), undoTimeout, e.lanes.of(key), key, s, newCommand(s, keys, lead, args))
	c.isUndo = true
	_, _ = c.ask()
	e.recycle(c)
}

const undoTimeout = time.Second

// delete deletes keys; Redis frees what they held in the background.
func (e *executor) delete(ctx context.Context, timeout time.Duration, keys ...any) error {
	return e.plain(ctx, timeout, keys[0].(string), append([]any{"unlink"}, keys...)...)
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
	_, _, err := e.do(ctx, timeout, e.lanes.of(key), key, nil, newPlainCommand(args...))
	return err
}

// ping asks for a sign of life, whatever the breaker says.
func (e *executor) ping(ctx context.Context, timeout time.Duration) error {
	c := e.newCall(ctx, timeout, e.lanes.one, "", nil, newPlainCommand("ping"))
	err := c.ctx.Err()
	if err == nil {
		_, err = c.ask()
	}
	e.recycle(c)
	return err
}

// do runs a command on the lane of a key, unless the breaker there is open: one of a script, or a plain one.
func (e *executor) do(
	ctx context.Context, timeout time.Duration, lane *lane, key string, s *script, cmd command,
) (answer []int64, late *lateAnswer, err error) {
	c := e.newCall(ctx, timeout, lane, key, s, cmd)
	if err = c.ctx.Err(); err == nil { // whatever the breaker says
		answer, err = c.lane.run(c)
	}
	if c.state.Load() == callLeft {
		late = c.late
	}
	e.recycle(c)
	return answer, late, err
}

// wait starts a call and waits for its answer, for the timeout and for the context.
func (e *executor) wait(c *call) ([]int64, error) {
	c.timer.Reset(c.timeout)
	closed := e.closed
	if c.isUndo {
		closed = nil
	}
	select {
	case c.lane.places <- struct{}{}:
	default:
		select {
		case c.lane.places <- struct{}{}:
		case <-c.timer.C:
			e.reporter.timeouts.Add(1)
			return nil, unavailable(fmt.Errorf("%w: %w among %d calls in flight within %v",
				ErrTimeout, errNoPlace, cap(c.lane.places), c.timeout))
		case <-c.ctx.Done():
			return nil, endOf(c.ctx)
		case <-closed:
			return nil, ErrClosed
		}
	}
	*c.command.context() = callContext{Context: c.ctx, gone: c.gone}
	if !e.start(c) {
		<-c.lane.places
		return nil, ErrClosed
	}

	var ended error
	select {
	case <-c.done:
		return c.answer, c.err
	case <-c.timer.C:
		e.reporter.timeouts.Add(1)
		e.slots.doubt(c.ctx)
		ended = c.timeoutError()
	case <-c.ctx.Done():
		ended = endOf(c.ctx)
	}
	c.late = &lateAnswer{}
	if c.leave() {
		return nil, ended
	}
	c.late = nil
	// The answer came in the same moment: a grant is not thrown away.
	<-c.done
	return c.answer, c.err
}

// orBackground is a context that is not nil.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// start runs a call in a goroutine, unless the executor is closed.
func (e *executor) start(c *call) bool {
	e.starting.RLock()
	defer e.starting.RUnlock()
	if e.isClosed() && !c.isUndo {
		return false
	}
	e.running.Add(1)
	go c.work()
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

// run runs a call. What it does at the end it does even if a hook of the redis client ends the goroutine.
func (e *executor) run(c *call) {
	defer e.running.Done()
	defer c.finish()
	defer func() { <-c.lane.places }()
	c.run(e)
	if c.err != nil && !isAnswer(c.err) {
		e.slots.doubt(context.Background())
		if c.state.Load() == callLeft {
			c.lane.breaker.learn(c.err)
		}
	}
}

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

// newCall is a call on the lane of a key; of no key where that is empty.
func (e *executor) newCall(ctx context.Context, timeout time.Duration, lane *lane, key string, s *script, cmd command) *call {
	c := e.calls.Get().(*call)
	c.ctx, c.timeout, c.lane, c.key, c.script, c.command = orBackground(ctx), timeout, lane, key, s, cmd
	return c
}

// recycle keeps a call for later use, unless the goroutine that runs it does.
func (e *executor) recycle(c *call) {
	if c.state.Load() != callLeft {
		c.reset()
		e.calls.Put(c)
	}
}

// close refuses further calls and waits for those on their way, at most for grace.
func (e *executor) close(grace time.Duration) {
	e.starting.Lock()
	if !e.isClosed() {
		close(e.closed)
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
