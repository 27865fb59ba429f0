package ration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// VirtualRedis is a Redis without a server, for tests in virtual time: one plan's twins behind redis clients. It can be away.
type VirtualRedis struct {
	plan *preparedPlan

	mu    sync.Mutex
	keys  map[string]twin
	there map[string]time.Time // until when a process is there
	state string
	delay time.Duration
	fault virtualError
	loses string          // what becomes of the next script that takes several units: "" it runs
	gone  map[string]bool // processes that crashed
	runs  map[string]int  // of scripts, by verb

	flying, most int // commands and pipelines that came at once
}

// NewVirtualRedis makes one for limiters of a plan.
func NewVirtualRedis(plan Plan) *VirtualRedis {
	prepared, err := prepare(plan)
	if err != nil {
		panic(err)
	}
	return &VirtualRedis{plan: prepared, keys: make(map[string]twin), there: make(map[string]time.Time), gone: make(map[string]bool), runs: make(map[string]int)}
}

// Hang has it take commands and never answer, until Return.
func (v *VirtualRedis) Hang() { v.set("hangs") }

// Refuse has nobody listen, until Return.
func (v *VirtualRedis) Refuse() { v.set("refuses") }

// Fault has it answer every script with a fault, until Return.
func (v *VirtualRedis) Fault() { v.FaultOf("OOM command not allowed when used memory > 'maxmemory'.") }

// FaultOf has it answer every script with an error of that text, until Return.
func (v *VirtualRedis) FaultOf(text string) {
	v.set("fault")
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fault = virtualError(text)
}

// Return has it answer again.
func (v *VirtualRedis) Return() { v.set("") }

// Delay has it answer that much after it ran a script, or refused it.
func (v *VirtualRedis) Delay(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.delay = d
}

func (v *VirtualRedis) set(state string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state = state
}

// Runs is how many scripts of a verb ran: take, peek, refund or beat.
func (v *VirtualRedis) Runs(verb string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.runs[verb]
}

// MostAtOnce is how many commands and pipelines were on their way at once, at most.
func (v *VirtualRedis) MostAtOnce() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.most
}

// Used is how many units of a key are counted, of a plan without time.
func (v *VirtualRedis) Used(key string) (units int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for stored, counts := range v.keys {
		if strings.Contains(stored, "{"+key+"}") {
			units += v.plan.limit - v.plan.outcome(counts.peekAt(time.Now().UnixMicro()), 1).remaining
		}
	}
	return units
}

// LosePayments has the next script that takes several units never come to an end.
func (v *VirtualRedis) LosePayments() { v.lose("lost") }

// StarvePayments has the next script that takes several units find no connection, until its caller has left.
func (v *VirtualRedis) StarvePayments() { v.lose("starved") }

func (v *VirtualRedis) lose(how string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.loses = how
}

// Crash has nothing heard any more of a client in the fleet.
func (v *VirtualRedis) Crash(c *Client) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone[c.fleet.process] = true
}

// NewRedis makes a redis client on it.
func (v *VirtualRedis) NewRedis() *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	rdb.AddHook(v)
	return rdb
}

// DialHook is not used.
func (v *VirtualRedis) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook runs the commands of a pipeline: what becomes of one becomes of all.
func (v *VirtualRedis) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := v.process(ctx, cmds)
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessHook runs a command.
func (v *VirtualRedis) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return v.process(ctx, []redis.Cmder{cmd}) }
}

func (v *VirtualRedis) process(ctx context.Context, cmds []redis.Cmder) error {
	v.mu.Lock()
	state, delay, fault := v.state, v.delay, v.fault
	v.flying++
	v.most = max(v.most, v.flying)
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.flying--
	}()
	switch state {
	case "hangs":
		<-ctx.Done()
		return &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded} // sent, and not answered
	case "fault":
		time.Sleep(delay)
		return fault
	case "refuses":
		return &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	for _, cmd := range cmds {
		switch v.loss(cmd) {
		case "lost":
			time.Sleep(10 * time.Minute)
			return errors.New("lost")
		case "starved":
			<-ctx.Done()
			return ctx.Err()
		}
		if err := v.run(cmd); err != nil {
			return err
		}
	}
	time.Sleep(delay)
	return nil
}

// loss says what becomes of a command: "" it runs.
func (v *VirtualRedis) loss(cmd redis.Cmder) (how string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	args := cmd.Args()
	if len(args) < 6 || args[1] != v.plan.take.digest || args[5] == any("1") {
		return ""
	}
	how, v.loses = v.loses, ""
	return how
}

func (v *VirtualRedis) run(cmd redis.Cmder) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	args := cmd.Args()
	if args[0] == "exists" {
		return nil
	}
	if args[0] == "zrem" {
		delete(v.there, args[2].(string))
		return nil
	}
	if args[0] == "unlink" {
		for _, key := range args[1:] {
			delete(v.keys, key.(string))
		}
		return nil
	}
	if args[1] == fleetBeat.digest {
		if v.gone[args[4].(string)] {
			return &net.OpError{Op: "read", Err: errors.New("crashed")}
		}
		v.runs["beat"]++
		v.there[args[4].(string)] = time.Now().Add(3 * time.Second)
		maps.DeleteFunc(v.there, func(_ string, until time.Time) bool { return !until.After(time.Now()) })
		cmd.(interface{ SetVal(val []int64) }).SetVal([]int64{int64(len(v.there)), 3_000_000})
		return nil
	}
	now := time.Now().UnixMicro()
	number := func(i int) int64 {
		var n int64
		if _, err := fmt.Sscan(fmt.Sprint(args[i]), &n); err != nil {
			panic(err)
		}
		return n
	}
	if v.plan.many != nil && args[1] == v.plan.many.digest {
		n := int(number(2))
		cost, counts, replies := number(3+n)/v.plan.unitOf(), len(args)-n, []int64(nil)
		for i := range n {
			r := v.counts(args[3+i]).takeAt(now, cost, number(counts+i), false)
			replies = append(replies, r[:v.plan.take.fields]...)
		}
		v.runs["take"]++
		cmd.(interface{ SetVal(val []int64) }).SetVal(replies)
		return nil
	}
	counts := v.counts(args[3])
	var r reply
	var ran *script
	verb := "take"
	switch args[1] {
	case v.plan.take.digest:
		ran = v.plan.take
		r = counts.takeAt(now, number(4)/v.plan.unitOf(), number(5), false)
	case v.plan.peek.digest:
		ran, verb = v.plan.peek, "peek"
		r = counts.peekAt(now)
	case v.plan.refund.digest:
		ran, verb = v.plan.refund, "refund"
		r[0] = v.refund(counts, now, args[4:])
	default:
		ran = v.plan.one
		r = counts.takeAt(now, number(4)/v.plan.unitOf(), 1, false)
	}
	v.runs[verb]++
	cmd.(interface{ SetVal(val []int64) }).SetVal(append([]int64(nil), r[:ran.fields]...))
	return nil
}

// counts are those of a stored key.
func (v *VirtualRedis) counts(key any) twin {
	known := v.keys[key.(string)]
	if known == nil {
		known = v.plan.newTwin()
		v.keys[key.(string)] = known
	}
	return known
}

// virtualError is an error that Redis answers.
type virtualError string

func (f virtualError) Error() string { return string(f) }

// RedisError marks it as one.
func (virtualError) RedisError() {}

// refund gives back what the arguments of the refund script of a FixedWindow say.
func (v *VirtualRedis) refund(counts twin, now int64, args []any) int64 {
	if _, ok := v.plan.plan.(FixedWindow); !ok {
		panic("refunds of FixedWindow only")
	}
	return counts.refundAt(now, reply{3: args[1].(int64)}, args[0].(int64))
}

func (p *preparedPlan) unitOf() int64 { return max(p.unit, 1) }

// FleetSize is how many processes a limiter takes its fleet to have.
func FleetSize(l *Limiter) int { return int(l.fleetSize()) }

// SetFleetSize has a limiter take its fleet for one of n processes.
func SetFleetSize(l *Limiter, n int) { l.presence.size.Store(int64(n)) }

// LocalKeys is how many keys a client counts by itself.
func LocalKeys(c *Client) int { return int(c.local.counted.Load()) }

// Owing is how many of those owe Redis something.
func Owing(c *Client) int { return int(c.local.owing.Load()) }

// OwedUnits is what they owe.
func OwedUnits(c *Client) (units int64) {
	c.local.mu.Lock()
	defer c.local.mu.Unlock()
	for _, e := range c.local.entries {
		units += e.debt
	}
	return units
}

// LocalGrants is how many grants the logs that a client counts by itself tell apart.
func LocalGrants(c *Client) (n int) {
	for _, e := range c.local.entries {
		n += len(e.twin.(*slidingLogTwin).grants)
	}
	return n
}
