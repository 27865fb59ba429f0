package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// scriptCall is what a limiter sends to Redis to decide about a key.
type scriptCall struct {
	digest string // the script's SHA-1
	names  []name
	args   []any // behind the keys
}

// name is what a key is called in Redis: what stands around it.
type name struct{ head, tail string }

// stored is what a key is called in Redis; the first of its names, where a script has several.
func (c scriptCall) stored(key string) string { return c.allStored(key)[0] }

// allStored is what a key is called in Redis, as each of the script's keys.
func (c scriptCall) allStored(key string) []string {
	all := make([]string, len(c.names))
	for i, n := range c.names {
		all[i] = n.head + key + n.tail
	}
	return all
}

// costing is the same call for a request of so many units, of a script whose first argument they are.
func (c scriptCall) costing(units int) scriptCall {
	c.args = slices.Clone(c.args)
	c.args[0] = units
	return c
}

// add puts a call about stored keys into a pipeline.
func (c scriptCall) add(ctx context.Context, p redis.Pipeliner, storedKeys ...string) {
	p.EvalSha(ctx, c.digest, storedKeys, c.args...)
}

// recordCall lets a peer decide about a key, twice, and notes the script call it makes when Redis knows the script.
func recordCall(ctx context.Context, p peer, o *redis.Options, q quota, key string) (scriptCall, error) {
	rdb := redis.NewClient(o)
	defer func() { _ = rdb.Close() }()
	r := recorder{key: key}
	rdb.AddHook(&r)
	l, err := p.open(rdb, q)
	if err != nil {
		return scriptCall{}, fmt.Errorf("%s: %w", p.name, err)
	}
	if l.close != nil {
		defer l.close()
	}
	for range 2 {
		if _, err := l.allow(ctx, key); err != nil {
			return scriptCall{}, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return callOf(p, r.last(), key)
}

// recordManyKeys lets a peer decide about many keys at once, until it makes a script call for so many, and notes that.
func recordManyKeys(ctx context.Context, p peer, o *redis.Options, q quota, key string, n int) (scriptCall, error) {
	rdb := redis.NewClient(o)
	defer func() { _ = rdb.Close() }()
	r := recorder{key: key, keys: strconv.Itoa(n)}
	rdb.AddHook(&r)
	l, err := p.open(rdb, q)
	if err != nil {
		return scriptCall{}, fmt.Errorf("%s: %w", p.name, err)
	}
	if l.close != nil {
		defer l.close()
	}
	const each, tries = 10, 100
	for range tries {
		// As many callers as there may be keys on their way and waiting, each with a key of its own.
		if _, err := ask(ctx, l, 8*n, func(caller, asked int) (string, bool) {
			return fmt.Sprintf("%s-%d", key, caller), asked < each
		}); err != nil {
			return scriptCall{}, fmt.Errorf("%s: %w", p.name, err)
		}
		if args := r.last(); args != nil {
			return callOf(p, args, key)
		}
	}
	return scriptCall{}, fmt.Errorf("%s makes no script call for %d keys", p.name, n)
}

// callOf is the script call of a peer about a key, from its arguments.
func callOf(p peer, args []any, key string) (scriptCall, error) {
	if len(args) < 4 || args[0] != "evalsha" {
		return scriptCall{}, fmt.Errorf("%s sends %v, not a script call with a key", p.name, args)
	}
	n, err := strconv.Atoi(fmt.Sprint(args[2]))
	if err != nil || n < 1 || len(args) < 3+n {
		return scriptCall{}, fmt.Errorf("%s sends %v, not a script call with a key", p.name, args)
	}
	c := scriptCall{digest: fmt.Sprint(args[1]), args: args[3+n:]}
	for _, stored := range args[3 : 3+n] {
		head, tail, found := strings.Cut(fmt.Sprint(stored), key)
		if !found {
			return scriptCall{}, fmt.Errorf("%s stores %q as %q", p.name, key, stored)
		}
		c.names = append(c.names, name{head, tail})
	}
	return c, nil
}

// recorder is a hook of a redis client that keeps the arguments of the last command about a key. A limiter may send others meanwhile.
type recorder struct {
	key  string
	keys string // of script calls with so many alone; empty: of any

	mu   sync.Mutex
	args []any
}

func (r *recorder) last() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.args
}

func (r *recorder) note(cmd redis.Cmder) {
	args := cmd.Args()
	if r.keys != "" && (len(args) < 3 || fmt.Sprint(args[2]) != r.keys) {
		return
	}
	if strings.Contains(fmt.Sprint(args...), r.key) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.args = slices.Clone(cmd.Args())
	}
}

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.note(cmd)
		return next(ctx, cmd)
	}
}

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			r.note(cmd)
		}
		return next(ctx, cmds)
	}
}
