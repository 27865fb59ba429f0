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
	slots  slotMap
	places chan struct{} // one element for each command on its way
	calls  sync.Pool     // *call

	starting sync.RWMutex // held to read while a command is started, to write while the executor is closed
	closed   chan struct{}
	running  sync.WaitGroup
}

func newExecutor(rdb redis.UniversalClient, maxInFlight int) *executor {
	e := &executor{
		rdb:    rdb,
		places: make(chan struct{}, maxInFlight),
		closed: make(chan struct{}),
	}
	e.calls.New = func() any { return newCall(e) }
	e.slots.client, _ = rdb.(stateReloader)
	return e
}

// call runs a script on keys: EVALSHA, and once more as EVAL where Redis does not know the script. The arguments are those
// that differ from call to call, then the plan's. It answers the integers that the script replies.
func (e *executor) call(
	ctx context.Context, timeout time.Duration, s *script, keys, lead, args []any,
) ([]int64, error) {
	answer, err := e.do(ctx, timeout, s, newCommand(s, keys, lead, args))
	if err == nil && s.fields > 0 && len(answer) != s.fields {
		return nil, unavailable(fmt.Errorf("%s: %d integers in the reply, not %d", s.name, len(answer), s.fields))
	}
	return answer, err
}

// delete deletes keys; Redis frees what they held in the background.
func (e *executor) delete(ctx context.Context, timeout time.Duration, keys ...any) error {
	_, err := e.do(ctx, timeout, nil, newPlainCommand(append([]any{"unlink"}, keys...)...))
	return err
}

// ping asks for a sign of life.
func (e *executor) ping(ctx context.Context, timeout time.Duration) error {
	_, err := e.do(ctx, timeout, nil, newPlainCommand("ping"))
	return err
}

// do starts a command, of a script or a plain one, and waits for its answer, for the timeout and for ctx.
func (e *executor) do(ctx context.Context, timeout time.Duration, s *script, cmd command) ([]int64, error) {
	ctx = orBackground(ctx)
	c := e.calls.Get().(*call)
	c.script, c.command = s, cmd
	if err := ctx.Err(); err != nil {
		return nil, e.recycle(c, err)
	}
	c.timer.Reset(timeout)
	select {
	case e.places <- struct{}{}:
	default:
		select {
		case e.places <- struct{}{}:
		case <-c.timer.C:
			return nil, e.recycle(c, unavailable(fmt.Errorf("%w: no place among %d calls in flight within %v",
				ErrTimeout, cap(e.places), timeout)))
		case <-ctx.Done():
			return nil, e.recycle(c, endOf(ctx))
		case <-e.closed:
			return nil, e.recycle(c, ErrClosed)
		}
	}
	*cmd.context() = callContext{Context: ctx, gone: c.gone}
	if !e.start(c) {
		<-e.places
		return nil, e.recycle(c, ErrClosed)
	}

	var ended error
	select {
	case <-c.done:
		answer := c.answer
		return answer, e.recycle(c, c.err)
	case <-c.timer.C:
		e.slots.doubt(ctx)
		ended = unavailable(fmt.Errorf("%w: no answer within %v%s", ErrTimeout, timeout, c.told()))
	case <-ctx.Done():
		ended = endOf(ctx)
	}
	if c.leave() {
		// The goroutine that runs the call keeps it.
		return nil, ended
	}
	// The answer came in the same moment: a grant is not thrown away.
	<-c.done
	answer := c.answer
	return answer, e.recycle(c, c.err)
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
	if e.isClosed() {
		return false
	}
	e.running.Add(1)
	go c.work()
	return true
}

// run runs a call. What it does at the end it does even if a hook of the redis client ends the goroutine.
func (e *executor) run(c *call) {
	defer e.running.Done()
	defer c.finish()
	defer func() { <-e.places }()
	c.run(e.rdb)
	if c.err != nil && !isAnswer(c.err) {
		e.slots.doubt(context.Background())
	}
}

// isAnswer says whether an error is one that Redis answered.
func isAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
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
	script  *script // nil: a plain command
	command command

	answer []int64
	err    error

	again atomic.Pointer[string] // why the script was to be sent again, at last
	state atomic.Int32
	work  func()        // runs the call in the executor
	done  chan struct{} // receives once, when the call has finished and its caller waits
	gone  chan struct{} // closed when the caller no longer waits; the call is then not used again
	timer *time.Timer
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
	c.work = func() { e.run(c) }
	return c
}

func (c *call) reset() {
	c.timer.Stop()
	c.script, c.command, c.answer, c.err = nil, nil, nil, nil
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

// finish hands the call back to its caller, unless that has left.
func (c *call) finish() {
	if c.state.CompareAndSwap(callWaiting, callFinished) {
		c.done <- struct{}{}
	}
}

// run sends the command and reads its answer. A script is sent once more only when Redis said that it did not run: in full,
// where Redis does not know it, and after a pause, where its keys are on their way from one node of a cluster to another.
func (c *call) run(rdb redis.UniversalClient) {
	c.err = errUnfinished
	defer func() {
		if p := recover(); p != nil {
			c.err = unavailable(fmt.Errorf("panic in the redis client: %v", p))
		}
	}()
	cmd, known := c.command, true
	err := rdb.Process(cmd.context(), cmd)
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
		err = rdb.Process(cmd.context(), cmd)
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

// told is why the script was to be sent again, for an error text.
func (c *call) told() string {
	if why := c.again.Load(); why != nil {
		return ": " + *why
	}
	return ""
}

// sleep pauses because of an error, and says whether the caller still waits then.
func (c *call) sleep(pause time.Duration, because error) bool {
	why := because.Error()
	c.again.Store(&why)
	select {
	case <-time.After(pause):
		return true
	case <-c.gone:
		return false
	}
}

// errUnfinished is the error of a call whose goroutine a hook of the redis client ended.
var errUnfinished = unavailable(errors.New("the redis client ended the call without an answer"))
