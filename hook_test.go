package ration_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// hook sees each command that is sent.
type hook func(ctx context.Context, cmd redis.Cmder) error

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := h(ctx, cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// countingRedis is a client of a server that is not there, and the number of commands that came to it.
func countingRedis(t *testing.T) (*redis.Client, *atomic.Int64) {
	t.Helper()
	var sent atomic.Int64
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(hook(func(context.Context, redis.Cmder) error {
		sent.Add(1)
		return errors.New("not to be sent")
	}))
	return rdb, &sent
}

// A panic in a hook of the user's redis client ends the call, not the process.
func TestPanicInTheRedisClient(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(hook(func(context.Context, redis.Cmder) error { panic("in a hook") }))
	client, err := ration.New(rdb, ration.WithTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("search", ration.FixedWindow{Limit: 5, Window: time.Minute})
	require.NoError(t, err)
	err = failure(limiter.Allow(t.Context(), "key"))
	require.ErrorIs(t, err, ration.ErrUnavailable)
	require.ErrorContains(t, err, "in a hook")
}

type contextKey struct{}

// The redis client sees the values of the caller's context, for tracing, and not its deadline.
func TestContextOfTheRedisClient(t *testing.T) {
	t.Parallel()
	srv := rationtest.New(t)
	rdb := srv.NewRedis(t)
	seen := make(chan context.Context, 1)
	rdb.AddHook(hook(func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "ping" {
			seen <- ctx
		}
		return nil
	}))
	client, err := ration.New(rdb, ration.WithTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), contextKey{}, "trace"), time.Minute)
	defer cancel()
	require.NoError(t, client.Ping(ctx))
	inner := <-seen
	require.Equal(t, "trace", inner.Value(contextKey{}))
	_, limited := inner.Deadline()
	require.False(t, limited)
	cancel()
	require.NoError(t, inner.Err(), "a command on its way is not cancelled, which would close its connection")
}

// No argument that is sent holds a time of the client: decisions are made by the server's clock.
func TestNoClientTimeOfB51(t *testing.T) {
	t.Parallel()
	srv := rationtest.New(t)
	rdb := srv.NewRedis(t)
	var mu sync.Mutex
	var args []any
	rdb.AddHook(hook(func(_ context.Context, cmd redis.Cmder) error {
		mu.Lock()
		defer mu.Unlock()
		if cmd.Name() == "evalsha" {
			args = append(args, cmd.Args()[2:]...)
		}
		return nil
	}))
	client, err := ration.New(rdb, ration.WithTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	for name, plan := range map[string]ration.Plan{
		"window":  ration.FixedWindow{Limit: 5, Window: time.Minute},
		"grid":    ration.FixedWindow{Limit: 5, Window: time.Minute, Aligned: true},
		"restart": ration.FixedWindow{Limit: 5, Window: time.Minute, RestartOnDeny: true},
		"sliding": ration.SlidingWindow{Limit: 5, Window: time.Minute},
		"log":     ration.SlidingLog{Limit: 5, Window: time.Minute},
		"bucket":  ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 5},
		"gcra":    ration.GCRA{Rate: ration.PerSecond(1), Burst: 5},
	} {
		limiter, err := client.Limiter(name, plan)
		require.NoError(t, err)
		err = failure(limiter.AllowN(t.Context(), "key", 2))
		require.NoError(t, err)
		err = failure(limiter.AllowUpTo(t.Context(), "key", 2))
		require.NoError(t, err)
		err = failure(limiter.Peek(t.Context(), "key"))
		require.NoError(t, err)
	}
	mu.Lock()
	defer mu.Unlock()
	require.NotEmpty(t, args)
	now := time.Now()
	for _, arg := range args {
		number, err := strconv.ParseFloat(strings.TrimSpace(asText(arg)), 64)
		if err != nil {
			continue
		}
		for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond} {
			away := math.Abs(number - float64(now.UnixNano())/float64(unit))
			require.Greater(t, away, float64(24*time.Hour)/float64(unit), "argument %v is a time in %v", arg, unit)
		}
	}
}

func asText(arg any) string {
	switch v := arg.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	default:
		panic("an argument of another type")
	}
}

// A hook that returns before the command has ended, as a circuit breaker may, takes nothing from other callers.
func TestHookThatReturnsEarly(t *testing.T) {
	t.Parallel()
	srv := rationtest.New(t)
	rdb := srv.NewRedis(t)
	var pending sync.WaitGroup
	first := make(chan struct{})
	rdb.AddHook(earlyHook{&pending, first})
	client, err := ration.New(rdb, ration.WithTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("search", ration.FixedWindow{Limit: 100, Window: time.Minute})
	require.NoError(t, err)
	err = failure(limiter.AllowN(context.WithValue(t.Context(), contextKey{}, "early"), "alice", 1))
	require.ErrorIs(t, err, ration.ErrUnavailable)
	d, err := limiter.AllowN(t.Context(), "bob", 10)
	require.NoError(t, err)
	require.EqualValues(t, 90, d.Remaining)
	close(first)
	pending.Wait()
	for key, remaining := range map[string]int64{"alice": 99, "bob": 90} {
		d, err := limiter.Peek(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, remaining, d.Remaining, key)
	}
}

// earlyHook lets commands whose context says so wait, and returns at once.
type earlyHook struct {
	pending *sync.WaitGroup
	open    chan struct{}
}

func (earlyHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h earlyHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if ctx.Value(contextKey{}) != "early" {
			return next(ctx, cmd)
		}
		h.pending.Go(func() {
			<-h.open
			for {
				err := next(ctx, cmd)
				if err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
					return
				}
			}
		})
		return errors.New("too slow")
	}
}

func (earlyHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A hook that ends the goroutine it runs in leaves no place taken, and no answer made up.
func TestGoexitInTheRedisClient(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(hook(func(context.Context, redis.Cmder) error { runtime.Goexit(); return nil }))
	client, err := ration.New(rdb, ration.WithTimeout(10*time.Second), ration.WithMaxInFlight(1))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("search", ration.FixedWindow{Limit: 5, Window: time.Minute})
	require.NoError(t, err)
	for range 3 {
		err = failure(limiter.Allow(t.Context(), "key"))
		require.ErrorIs(t, err, ration.ErrUnavailable)
		require.NotErrorIs(t, err, ration.ErrTimeout)
	}
}

// A hook that says there was no error, and asked nobody, has no answer to give.
func TestHookThatSwallowsTheCall(t *testing.T) {
	t.Parallel()
	rdb := rationtest.New(t).NewRedis(t)
	rdb.AddHook(processHook(func(context.Context, redis.Cmder, redis.ProcessHook) error { return nil }))
	client, err := ration.New(rdb, ration.WithTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	for name, plan := range map[string]ration.Plan{
		"one":     ration.GCRA{Rate: ration.PerSecond(1), Burst: 5},
		"several": ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 5},
	} {
		limiter, err := client.Limiter(name, plan)
		require.NoError(t, err)
		err = failure(limiter.AllowN(t.Context(), "key", 0))
		require.ErrorIs(t, err, ration.ErrUnavailable, name)
		err = failure(limiter.Peek(t.Context(), "key"))
		require.ErrorIs(t, err, ration.ErrUnavailable, name)
	}
}

// processHook is a hook that has to do with commands alone.
type processHook func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error

func (processHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h processHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return h(ctx, cmd, next) }
}

func (processHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
