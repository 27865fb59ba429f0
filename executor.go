package ration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// executor runs commands through the user's redis client. A caller waits for its answer on a channel, so that the wait ends
// in time whatever the client does: by default go-redis does not apply a context's deadline to a socket, and where it does,
// the deadline closes the connection. The command itself runs in a goroutine, as long as the client lets it.
type executor struct {
	rdb    redis.UniversalClient
	places chan struct{} // one element for each command on its way
	calls  sync.Pool     // *call

	starting sync.RWMutex // held to read while a command is started, to write while the executor is closed
	closed   chan struct{}
	running  sync.WaitGroup
}

func newExecutor(rdb redis.UniversalClient, maxInFlight int) *executor {
	return &executor{
		rdb:    rdb,
		places: make(chan struct{}, maxInFlight),
		closed: make(chan struct{}),
		calls:  sync.Pool{New: func() any { return newCall() }},
	}
}

// call runs a script on a key: EVALSHA, and once more as EVAL where Redis does not know the script. The arguments are
// numbers that differ from call to call, then the plan's.
func (e *executor) call(
	ctx context.Context, timeout time.Duration, s *script, key string, numbers []int64, args []any,
) (reply, error) {
	c := e.calls.Get().(*call)
	c.script = s
	c.sent = &sent{}
	c.args = append(c.sent.room[:0], "evalsha", s.digest, "1", key)
	for _, n := range numbers {
		c.args = append(c.args, n)
	}
	c.args = append(c.args, args...)
	return e.do(ctx, timeout, c)
}

// delete deletes a key.
func (e *executor) delete(ctx context.Context, timeout time.Duration, key string) error {
	c := e.calls.Get().(*call)
	c.sent, c.args = &sent{}, []any{"del", key}
	_, err := e.do(ctx, timeout, c)
	return err
}

// ping asks for a sign of life.
func (e *executor) ping(ctx context.Context, timeout time.Duration) error {
	c := e.calls.Get().(*call)
	c.sent, c.args = &sent{}, []any{"ping"}
	_, err := e.do(ctx, timeout, c)
	return err
}

// do starts a call and waits for its answer, for the timeout and for ctx. It disposes of the call.
func (e *executor) do(ctx context.Context, timeout time.Duration, c *call) (reply, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	if err := ctx.Err(); err != nil {
		return reply{}, e.recycle(c, err)
	}
	c.timer.Reset(timeout)
	select {
	case e.places <- struct{}{}:
	default:
		select {
		case e.places <- struct{}{}:
		case <-c.timer.C:
			return reply{}, e.recycle(c, unavailable(fmt.Errorf("%w: no place among %d calls in flight within %v",
				ErrTimeout, cap(e.places), timeout)))
		case <-ctx.Done():
			return reply{}, e.recycle(c, endOf(ctx))
		case <-e.closed:
			return reply{}, e.recycle(c, ErrClosed)
		}
	}
	c.sent.ctx = callContext{Context: ctx, gone: c.gone}
	if !e.start(c) {
		<-e.places
		return reply{}, e.recycle(c, ErrClosed)
	}

	var ended error
	select {
	case <-c.done:
		r := c.reply
		return r, e.recycle(c, c.err)
	case <-c.timer.C:
		ended = unavailable(fmt.Errorf("%w: no answer within %v", ErrTimeout, timeout))
	case <-ctx.Done():
		ended = endOf(ctx)
	}
	if c.leave() {
		// The goroutine that runs the call keeps it.
		return reply{}, ended
	}
	// The answer came in the same moment: a grant is not thrown away.
	<-c.done
	r := c.reply
	return r, e.recycle(c, c.err)
}

// start runs a call in a goroutine, unless the executor is closed.
func (e *executor) start(c *call) bool {
	e.starting.RLock()
	defer e.starting.RUnlock()
	if e.isClosed() {
		return false
	}
	e.running.Add(1)
	go e.run(c)
	return true
}

// run runs a call. What it does at the end it does even if a hook of the redis client ends the goroutine.
func (e *executor) run(c *call) {
	defer e.running.Done()
	defer c.finish()
	defer func() { <-e.places }()
	c.run(e.rdb)
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

// recycle keeps a call for later use, and passes on how it ended.
func (e *executor) recycle(c *call, err error) error {
	c.reset()
	e.calls.Put(c)
	return err
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

// call is one command on its way. While it runs it belongs to the goroutine that runs it; then to its caller, if that still
// waits, who returns it to the pool.
type call struct {
	script *script // nil: a plain command that answers with one integer or a status
	args   []any
	sent   *sent

	reply reply
	err   error

	state atomic.Int32
	done  chan struct{} // receives once, when the call has finished and its caller waits
	gone  chan struct{} // closed when the caller no longer waits; the call is then not used again
	timer *time.Timer
}

// sent is the part of a call that the redis client is given. It is never used again: hooks of the redis client may keep a
// command, or go on with it after they have returned.
type sent struct {
	ctx  callContext
	cmd  sendOnceInts // of a script
	room [9]any       // for the arguments of every script so far
}

// The states of a call.
const (
	callWaiting int32 = iota
	callFinished
	callLeft // its caller no longer waits
)

func newCall() *call {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &call{
		done:  make(chan struct{}, 1),
		gone:  make(chan struct{}),
		timer: timer,
	}
}

func (c *call) reset() {
	c.timer.Stop()
	c.script, c.args, c.sent, c.reply, c.err = nil, nil, nil, reply{}, nil
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

// finish hands the call back to its caller, unless that has left.
func (c *call) finish() {
	if c.state.CompareAndSwap(callWaiting, callFinished) {
		c.done <- struct{}{}
	}
}

// run sends the command and reads its answer. Nothing is sent a second time but a script that Redis said it does not know.
func (c *call) run(rdb redis.UniversalClient) {
	c.err = errUnfinished
	defer func() {
		if p := recover(); p != nil {
			c.err = unavailable(fmt.Errorf("panic in the redis client: %v", p))
		}
	}()
	if c.script == nil {
		if c.err = rdb.Process(&c.sent.ctx, &sendOnceCmd{redis.NewCmd(&c.sent.ctx, c.args...)}); c.err != nil {
			c.err = unavailable(c.err)
		}
		return
	}
	cmd := &c.sent.cmd
	cmd.IntSliceCmd = redis.NewIntSliceCmd(&c.sent.ctx, c.args...)
	err := rdb.Process(&c.sent.ctx, cmd)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") && c.state.Load() != callLeft {
		inFull := append([]any{"eval", *c.script.source}, c.args[2:]...)
		cmd = &sendOnceInts{redis.NewIntSliceCmd(&c.sent.ctx, inFull...)}
		err = rdb.Process(&c.sent.ctx, cmd)
	}
	if err != nil {
		// The answer is not looked at: a hook that returned early may still be writing it.
		c.err = unavailable(err)
		return
	}
	integers := cmd.Val()
	if len(integers) != c.script.fields {
		c.err = unavailable(fmt.Errorf("%s: %d integers in the reply, not %d", c.script.name, len(integers), c.script.fields))
		return
	}
	copy(c.reply[:], integers)
	c.err = nil
}

// errUnfinished is the error of a call whose goroutine a hook of the redis client ended.
var errUnfinished = unavailable(errors.New("the redis client ended the call without an answer"))

// sendOnceInts is a command answered by integers which go-redis sends at most once: by itself it sends a command up to four
// times on one call, and each would charge.
type sendOnceInts struct{ *redis.IntSliceCmd }

func (*sendOnceInts) NoRetry() bool { return true }

func (c *sendOnceInts) Clone() redis.Cmder {
	return &sendOnceInts{c.IntSliceCmd.Clone().(*redis.IntSliceCmd)}
}

// sendOnceCmd is a command with any answer which go-redis sends at most once.
type sendOnceCmd struct{ *redis.Cmd }

func (*sendOnceCmd) NoRetry() bool { return true }

func (c *sendOnceCmd) Clone() redis.Cmder { return &sendOnceCmd{c.Cmd.Clone().(*redis.Cmd)} }

// callContext carries the values of the caller's context to the redis client (tracing reads them), but not its deadline,
// which might close the connection. It is done when the caller no longer waits: what has not been sent by then is not sent.
type callContext struct {
	context.Context
	gone <-chan struct{}
}

func (*callContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

func (c *callContext) Done() <-chan struct{} { return c.gone }

func (c *callContext) Err() error {
	select {
	case <-c.gone:
		return context.Canceled
	default:
		return nil
	}
}
