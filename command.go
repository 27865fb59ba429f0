package ration

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// command is what the redis client is given. It is used for one call only: hooks of the client may keep a command, or go on
// with it after they have returned. The client sends it at most once; by itself it sends a command up to four times on one
// call, and each would charge.
type command interface {
	redis.Cmder
	NoRetry() bool
	// context is that of the command, to be set before it is sent.
	context() *callContext
	// answer are the integers that Redis answered.
	answer() []int64
}

// newCommand is a command that runs a script on keys, by its digest. The arguments are those that differ from call to call,
// then the plan's.
func newCommand(s *script, keys, lead, args []any) command {
	c := &intsCommand{}
	all := c.room[:0]
	if n := 3 + len(keys) + len(lead) + len(args); n > len(c.room) {
		all = make([]any, 0, n)
	}
	all = append(all, "evalsha", s.digest, numberOfKeys[len(keys)])
	all = append(append(append(all, keys...), lead...), args...)
	c.IntSliceCmd = *redis.NewIntSliceCmd(&c.ctx, all...)
	return c
}

// newCommandOf is a command of which all arguments are made.
func newCommandOf(args []any) command {
	c := &intsCommand{}
	c.IntSliceCmd = *redis.NewIntSliceCmd(&c.ctx, args...)
	return c
}

// numberOfKeys are numbers of keys as arguments, boxed once.
var numberOfKeys = func() (boxed [max(maxPlans, maxKeysPerCall) + 1]any) {
	for n := range boxed {
		boxed[n] = strconv.Itoa(n)
	}
	return boxed
}()

// inFull is a command that runs the same script, sent with it.
func inFull(c command, s *script) command {
	full := &intsCommand{ctx: *c.context()}
	full.IntSliceCmd = *redis.NewIntSliceCmd(&full.ctx, append([]any{"eval", *s.source}, c.Args()[2:]...)...)
	return full
}

// intsCommand is answered by integers.
type intsCommand struct {
	ctx callContext
	redis.IntSliceCmd
	room [10]any // for the arguments
}

func (*intsCommand) NoRetry() bool           { return true }
func (c *intsCommand) context() *callContext { return &c.ctx }
func (c *intsCommand) answer() []int64       { return c.Val() }

// Clone is what a client gives to another node.
func (c *intsCommand) Clone() redis.Cmder {
	clone := &intsCommand{ctx: c.ctx}
	clone.IntSliceCmd = *redis.NewIntSliceCmd(&clone.ctx, c.Args()...)
	return clone
}

// plainCommand is any command whose answer does not matter.
type plainCommand struct {
	ctx callContext
	*redis.Cmd
}

func newPlainCommand(args ...any) command {
	c := &plainCommand{}
	c.Cmd = redis.NewCmd(&c.ctx, args...)
	return c
}

func (*plainCommand) NoRetry() bool           { return true }
func (c *plainCommand) context() *callContext { return &c.ctx }
func (*plainCommand) answer() []int64         { return nil }

// Clone is what a client gives to another node.
func (c *plainCommand) Clone() redis.Cmder {
	return &plainCommand{ctx: c.ctx, Cmd: c.Cmd.Clone().(*redis.Cmd)}
}

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
