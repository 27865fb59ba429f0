package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// target is the Redis that is asked.
type target struct {
	options *redis.Options
	place   string // where it runs, for people
	isTests bool   // it is inside a test, and its clock the test's
	// pause waits by the clock of this Redis, which is a test's where that is the test's.
	pause func(context.Context, time.Duration) error
	stop  func()
}

// patience is how long a Redis may take to give its first sign of life.
const patience = 10 * time.Second

// openTarget reaches the Redis that a URL names. Without one it starts a redis-server, which whoever calls stops.
func openTarget(ctx context.Context, url string) (*target, error) {
	if url == "" {
		return startTarget(ctx)
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("the URL of Redis cannot be read: want one such as redis://user:password@host:6379/0 " +
			"or unix:///path/of/socket")
	}
	if err := await(ctx, options); err != nil {
		return nil, fmt.Errorf("cannot reach Redis at %s: %w", options.Addr, err)
	}
	return &target{options: options, place: "at " + options.Addr, pause: pause, stop: func() {}}, nil
}

// startTarget starts a redis-server that stores nothing on disk, on a Unix socket, where the least time goes elsewhere.
func startTarget(ctx context.Context) (*target, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("there is no Redis to ask: give one by -redis URL or RATION_REDIS, or put redis-server on PATH")
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "redis.sock")
	server := exec.Command(program, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	var said strings.Builder
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	stop := func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		_ = os.RemoveAll(dir)
	}
	options := &redis.Options{Network: "unix", Addr: socket}
	if err := await(ctx, options); err != nil {
		stop()
		return nil, fmt.Errorf("%s does not answer: %w; it said:\n%s", program, err, said.String())
	}
	return &target{options: options, place: "on a Unix socket of the same machine", pause: pause, stop: stop}, nil
}

// await asks for a sign of life until there is one.
func await(ctx context.Context, o *redis.Options) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rdb := redis.NewClient(o)
	defer func() { _ = rdb.Close() }()
	for {
		err := rdb.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
