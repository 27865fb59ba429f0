package ration

import (
	"context"
	"math"
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
	// read takes the integers of the answer, and says how many there are.
	read(r *reply) int
}

// newCommand is a command that runs a script on a key, by its digest. The arguments are those that differ from call to
// call, then the plan's.
func newCommand(s *script, key any, lead, args []any) command {
	fill := func(room []any) []any {
		room = append(room, "evalsha", s.digest, "1", key)
		return append(append(room, lead...), args...)
	}
	if s.fields == 1 {
		c := &intCommand{}
		c.IntCmd = redis.NewIntCmd(&c.ctx, fill(c.room[:0])...)
		c.SetVal(noAnswer)
		return c
	}
	c := &intsCommand{}
	c.IntSliceCmd = redis.NewIntSliceCmd(&c.ctx, fill(c.room[:0])...)
	return c
}

// inFull is a command that runs the same script, sent with it.
func inFull(c command, s *script) command {
	args := append([]any{"eval", *s.source}, c.Args()[2:]...)
	if s.fields == 1 {
		full := &intCommand{ctx: *c.context()}
		full.IntCmd = redis.NewIntCmd(&full.ctx, args...)
		full.SetVal(noAnswer)
		return full
	}
	full := &intsCommand{ctx: *c.context()}
	full.IntSliceCmd = redis.NewIntSliceCmd(&full.ctx, args...)
	return full
}

// intsCommand is answered by integers, in the order of a reply.
type intsCommand struct {
	ctx callContext
	*redis.IntSliceCmd
	room [10]any // for the arguments
}

func (*intsCommand) NoRetry() bool           { return true }
func (c *intsCommand) context() *callContext { return &c.ctx }

func (c *intsCommand) read(r *reply) int {
	copy(r[:], c.Val())
	return len(c.Val())
}

// Clone is what a client gives to another node.
func (c *intsCommand) Clone() redis.Cmder {
	return &intsCommand{ctx: c.ctx, IntSliceCmd: c.IntSliceCmd.Clone().(*redis.IntSliceCmd)}
}

// intCommand is answered by one integer: a number when it is granted, and -1 less the number when not.
type intCommand struct {
	ctx callContext
	*redis.IntCmd
	room [7]any // for the arguments
}

func (*intCommand) NoRetry() bool           { return true }
func (c *intCommand) context() *callContext { return &c.ctx }

// noAnswer is the value of a command that was not answered, be it that a hook says there was no error.
const noAnswer = math.MinInt64

func (c *intCommand) read(r *reply) int {
	switch n := c.Val(); {
	case n == noAnswer:
		return 0
	case n >= 0:
		*r = reply{1, n}
	default:
		*r = reply{0, -1 - n}
	}
	return 1
}

// Clone is what a client gives to another node.
func (c *intCommand) Clone() redis.Cmder {
	return &intCommand{ctx: c.ctx, IntCmd: c.IntCmd.Clone().(*redis.IntCmd)}
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
func (*plainCommand) read(*reply) int         { return 0 }

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
