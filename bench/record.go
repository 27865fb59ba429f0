package main

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"
)

// scriptCall is what a limiter sends to Redis to decide about one key.
type scriptCall struct {
	digest    string // the script's SHA-1
	storedKey string // what the key is called in Redis
	args      []any  // behind the key
}

// recordCall lets a peer decide about a key, twice, and notes the script call it makes when Redis knows the script.
func recordCall(ctx context.Context, p peer, o *redis.Options, q quota, key string) (scriptCall, error) {
	rdb := redis.NewClient(o)
	defer func() { _ = rdb.Close() }()
	var r recorder
	rdb.AddHook(&r)
	l, err := p.open(rdb, q)
	if err != nil {
		return scriptCall{}, err
	}
	if l.close != nil {
		defer l.close()
	}
	for range 2 {
		if _, err := l.allow(ctx, key); err != nil {
			return scriptCall{}, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if len(r.args) < 4 || r.args[0] != "evalsha" || fmt.Sprint(r.args[2]) != "1" {
		return scriptCall{}, fmt.Errorf("%s sends %v, not a script call with one key", p.name, r.args)
	}
	return scriptCall{
		digest:    fmt.Sprint(r.args[1]),
		storedKey: fmt.Sprint(r.args[3]),
		args:      r.args[4:],
	}, nil
}

// recorder is a hook of a redis client that keeps the arguments of the last command.
type recorder struct{ args []any }

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.args = slices.Clone(cmd.Args())
		return next(ctx, cmd)
	}
}

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.args = slices.Clone(cmds[len(cmds)-1].Args())
		return next(ctx, cmds)
	}
}
