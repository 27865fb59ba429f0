package ration_test

import (
	"context"
	"errors"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// soon is when a call that does not wait for Redis must have ended: far above what scheduling takes, and far below the 3 s
// after which go-redis gives up by itself.
const soon = time.Second

// fakeRedis is a server that does with each command what the test says.
type fakeRedis struct {
	*redis.Client
	mu       sync.Mutex
	commands map[string]int // received, by name in capitals
}

// newFakeRedis starts a server on which the given commands are handled so, and a client of it with default options.
func newFakeRedis(t *testing.T, handlers map[string]server.Cmd) *fakeRedis {
	t.Helper()
	srv, err := server.NewServer("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	f := &fakeRedis{commands: make(map[string]int)}
	for name, handle := range handlers {
		require.NoError(t, srv.Register(name, func(c *server.Peer, cmd string, args []string) {
			f.mu.Lock()
			f.commands[cmd]++
			f.mu.Unlock()
			handle(c, cmd, args)
		}))
	}
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr().String()})
	t.Cleanup(func() { _ = rdb.Close() })
	f.Client = rdb
	return f
}

func (f *fakeRedis) received(command string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commands[command]
}

// withoutBreaker is for tests of what calls do that are let through, however many before got no answer.
var withoutBreaker = ration.WithBreaker(ration.Breaker{Failures: math.MaxInt, Share: 1})

// withoutBeats is for tests that count what is sent or stored: whoever does not decide locally need not know the fleet.
var withoutBeats = ration.OnFailure(ration.FailClosed())

// failure is why Redis did not decide: an error, or the cause of what the failure policy decided.
func failure(d ration.Decision, err error) error {
	if err == nil {
		return d.Cause
	}
	return err
}

// limiter is one with a window on the fake server.
func (f *fakeRedis) limiter(t *testing.T, options ...ration.ClientOption) (*ration.Client, *ration.Limiter) {
	t.Helper()
	client, err := ration.New(f.Client, append([]ration.ClientOption{withoutBreaker, withoutBeats}, options...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("search", ration.FixedWindow{Limit: 5, Window: time.Minute})
	require.NoError(t, err)
	return client, limiter
}

func granted(c *server.Peer, _ string, _ []string) {
	c.WriteLen(4)
	c.WriteInt(1)
	c.WriteInt(4)
	c.WriteInt(60_000)
	c.WriteInt(1_900_000_060_000)
}

func hangUp(c *server.Peer, _ string, _ []string) { c.Close() }

// blocker is a handler that answers when the test says so, or has ended.
type blocker struct {
	entered chan struct{}
	release chan struct{}
	ended   <-chan struct{}
	then    server.Cmd
}

func newBlocker(t *testing.T, then server.Cmd) *blocker {
	t.Helper()
	return &blocker{
		entered: make(chan struct{}, 1000),
		release: make(chan struct{}),
		ended:   t.Context().Done(), // before the server is closed, which waits for its handlers
		then:    then,
	}
}

func (b *blocker) open() { close(b.release) }

func (b *blocker) handle(c *server.Peer, cmd string, args []string) {
	b.entered <- struct{}{}
	select {
	case <-b.release:
	case <-b.ended:
	}
	b.then(c, cmd, args)
}

// A connection lost in the middle of a call, of which nobody knows whether it was charged, is not tried again.
func TestSentOnce(t *testing.T) {
	t.Parallel()
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": hangUp, "EVAL": hangUp, "UNLINK": hangUp, "PING": hangUp})
	client, limiter := f.limiter(t, ration.WithTimeout(10*time.Second))

	err := failure(limiter.Allow(t.Context(), "key"))
	require.ErrorIs(t, err, ration.ErrUnavailable)
	require.Equal(t, 1, f.received("EVALSHA"))
	err = failure(limiter.Peek(t.Context(), "key"))
	require.ErrorIs(t, err, ration.ErrUnavailable)
	require.Equal(t, 2, f.received("EVALSHA"))
	require.ErrorIs(t, limiter.Reset(t.Context(), "key"), ration.ErrUnavailable)
	require.Equal(t, 1, f.received("UNLINK"))
	require.ErrorIs(t, client.Ping(t.Context()), ration.ErrUnavailable)
	require.Equal(t, 1, f.received("PING"))
	require.Zero(t, f.received("EVAL"))

	// The check can fail: go-redis by itself sends such a command four times.
	require.Error(t, f.EvalSha(t.Context(), "0", nil).Err())
	require.Equal(t, 2+4, f.received("EVALSHA"))
}

// A script that Redis does not know is sent in full, once, and charged once.
func TestUnknownScriptOfB61(t *testing.T) {
	t.Parallel()
	srv := rationtest.New(t)
	rdb := srv.NewRedis(t)
	limiter, err := srv.Client.Limiter("search", ration.FixedWindow{Limit: 5, Window: time.Minute})
	require.NoError(t, err)
	for _, remaining := range []int64{4, 3} {
		d, err := limiter.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, remaining, d.Remaining)
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	}

	unknown := func(c *server.Peer, _ string, _ []string) { c.WriteError("NOSCRIPT No matching script.") }
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": unknown, "EVAL": unknown})
	_, limiter = f.limiter(t, ration.WithTimeout(10*time.Second))
	err = failure(limiter.Allow(t.Context(), "key"))
	require.ErrorIs(t, err, ration.ErrUnavailable)
	require.ErrorContains(t, err, "NOSCRIPT")
	require.Equal(t, 1, f.received("EVALSHA"))
	require.Equal(t, 1, f.received("EVAL"))
}

// A script is not sent in full for a caller who has left.
func TestUnknownScriptAfterTheCallerLeft(t *testing.T) {
	t.Parallel()
	b := newBlocker(t, func(c *server.Peer, _ string, _ []string) { c.WriteError("NOSCRIPT No matching script.") })
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": b.handle, "EVAL": granted})
	client, limiter := f.limiter(t, ration.WithTimeout(time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-b.entered
		cancel()
	}()
	err := failure(limiter.Allow(ctx, "key"))
	require.ErrorIs(t, err, context.Canceled)
	b.open()
	client.Close() // waits for the call
	require.Equal(t, 1, f.received("EVALSHA"))
	require.Zero(t, f.received("EVAL"))
}

// A server that accepts and does not answer holds a caller no longer than the timeout, whatever the client's own.
func TestTimeout(t *testing.T) {
	t.Parallel()
	b := newBlocker(t, granted)
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": b.handle, "UNLINK": b.handle, "PING": b.handle})
	client, limiter := f.limiter(t, ration.OnFailure(ration.FailClosed())) // 10 ms by default
	begin := time.Now()
	for _, call := range []func() error{
		func() error { return failure(limiter.Allow(t.Context(), "key")) },
		func() error { return failure(limiter.AllowUpTo(t.Context(), "key", 3)) },
		func() error { return failure(limiter.Peek(t.Context(), "key")) },
		func() error { return limiter.Reset(t.Context(), "key") },
		func() error { return client.Ping(t.Context()) },
	} {
		err := call()
		require.ErrorIs(t, err, ration.ErrUnavailable)
		require.ErrorIs(t, err, ration.ErrTimeout)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "redis unavailable: timeout: no answer within 10ms")
	}
	require.Less(t, time.Since(begin), soon)
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	rdb := redis.NewClient(&redis.Options{Addr: listener.Addr().String()})
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := ration.New(rdb)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("search", ration.FixedWindow{Limit: 5, Window: time.Minute})
	require.NoError(t, err)
	begin := time.Now()
	err = failure(limiter.Allow(t.Context(), "key"))
	require.ErrorIs(t, err, ration.ErrUnavailable)
	require.Less(t, time.Since(begin), soon)
}

// The end of the caller's context ends the call, as what it is.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	b := newBlocker(t, granted)
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": b.handle})
	_, limiter := f.limiter(t, ration.WithTimeout(time.Minute))

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-b.entered
		cancel()
	}()
	err := failure(limiter.Allow(ctx, "key"))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ration.ErrUnavailable)

	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = failure(limiter.Allow(deadline, "key"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, ration.ErrUnavailable)
}

func TestContextEndedBefore(t *testing.T) {
	t.Parallel()
	rdb, sent := countingRedis(t)
	client, err := ration.New(rdb, withoutBeats)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("search", ration.FixedWindow{Limit: 5, Window: time.Minute})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = failure(limiter.Allow(ctx, "key"))
	require.ErrorIs(t, err, context.Canceled)
	err = failure(limiter.Peek(ctx, "key"))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, limiter.Reset(ctx, "key"), context.Canceled)
	require.ErrorIs(t, client.Ping(ctx), context.Canceled)
	require.Zero(t, sent.Load())
}

// hold makes n calls that wait for the blocker, and returns when it has them. The function it returns gives their answers.
func (b *blocker) hold(t *testing.T, client *ration.Client, n int) (answers func() []error) {
	t.Helper()
	patient, err := client.Limiter("search", ration.FixedWindow{Limit: 5, Window: time.Minute}, ration.WithTimeout(time.Minute))
	require.NoError(t, err)
	ended := make(chan error, n)
	for range n {
		go func() {
			_, err := patient.Allow(context.Background(), "key")
			ended <- err
		}()
	}
	for range n {
		<-b.entered
	}
	return func() []error {
		errs := make([]error, n)
		for i := range errs {
			errs[i] = <-ended
		}
		return errs
	}
}

// A server that hangs has a bounded number of calls on their way; the others are not sent at all, and charge nothing.
func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	b := newBlocker(t, granted)
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": b.handle})
	client, limiter := f.limiter(t, ration.WithMaxInFlight(3), ration.WithTimeout(20*time.Millisecond))
	answers := b.hold(t, client, 3)
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			if err := failure(limiter.Allow(context.Background(), "key")); !errors.Is(err, ration.ErrTimeout) {
				t.Errorf("got %v, want %v", err, ration.ErrTimeout)
			}
		})
	}
	callers.Wait()
	b.open()
	require.Equal(t, []error{nil, nil, nil}, answers())
	require.Equal(t, 3, f.received("EVALSHA"))
	require.NoError(t, b.hold(t, client, 1)()[0], "places are free again")
}

// Close does not leave callers waiting for a place that none will take.
func TestCloseEndsTheWaitForAPlace(t *testing.T) {
	t.Parallel()
	b := newBlocker(t, granted)
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": b.handle})
	client, limiter := f.limiter(t, ration.WithMaxInFlight(1), ration.WithTimeout(time.Minute))
	answers := b.hold(t, client, 1)
	waiting := make(chan error, 1)
	go func() {
		err := failure(limiter.Allow(context.Background(), "key"))
		waiting <- err
	}()
	closed := make(chan struct{})
	go func() {
		client.Close()
		close(closed)
	}()
	require.ErrorIs(t, <-waiting, ration.ErrClosed)
	b.open()
	<-closed
	require.NoError(t, answers()[0])
}

// Callers who left before their command got a connection did not send it.
func TestNotSentAfterTheCallerLeft(t *testing.T) {
	t.Parallel()
	b := newBlocker(t, granted)
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": b.handle})
	one := redis.NewClient(&redis.Options{Addr: f.Options().Addr, PoolSize: 1})
	t.Cleanup(func() { _ = one.Close() })
	f.Client = one
	client, limiter := f.limiter(t, ration.WithTimeout(20*time.Millisecond))
	answers := b.hold(t, client, 1)
	for range 10 {
		err := failure(limiter.Allow(t.Context(), "key"))
		require.ErrorIs(t, err, ration.ErrTimeout)
	}
	b.open()
	require.NoError(t, answers()[0])
	client.Close()
	require.Equal(t, 1, f.received("EVALSHA"), "the one that had the connection")
}

func TestClose(t *testing.T) {
	t.Parallel()
	b := newBlocker(t, granted)
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": b.handle})
	client, limiter := f.limiter(t, ration.WithTimeout(time.Minute))
	answered := make(chan error, 1)
	go func() {
		d, err := limiter.Allow(context.Background(), "key")
		if err == nil && !d.Allowed {
			err = errors.New("denied")
		}
		answered <- err
	}()
	<-b.entered
	closed := make(chan struct{})
	go func() {
		client.Close()
		close(closed)
	}()
	// Close has begun when calls are refused.
	require.Eventually(t, func() bool { return errors.Is(client.Ping(t.Context()), ration.ErrClosed) }, 10*time.Second, time.Millisecond)
	select {
	case <-closed:
		t.Fatal("Close did not wait for the call on its way")
	default:
	}
	b.open()
	<-closed
	require.NoError(t, <-answered)
	client.Close()

	err := failure(limiter.Allow(t.Context(), "key"))
	require.ErrorIs(t, err, ration.ErrClosed)
	err = failure(limiter.Peek(t.Context(), "key"))
	require.ErrorIs(t, err, ration.ErrClosed)
	require.ErrorIs(t, limiter.Reset(t.Context(), "key"), ration.ErrClosed)
	_, err = client.Limiter("other", ration.FixedWindow{Limit: 5, Window: time.Minute})
	require.ErrorIs(t, err, ration.ErrClosed)
	require.NoError(t, f.EvalSha(t.Context(), "0", nil).Err(), "the redis client is not the Client's to close")
}

func TestOddReplies(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]server.Cmd{
		"error": func(c *server.Peer, _ string, _ []string) {
			c.WriteError("ERR value is not an integer or out of range")
		},
		"wrongtype": func(c *server.Peer, _ string, _ []string) { c.WriteError("WRONGTYPE Operation against a key") },
		"string":    func(c *server.Peer, _ string, _ []string) { c.WriteBulk("yes") },
		"null":      func(c *server.Peer, _ string, _ []string) { c.WriteNull() },
		"integer":   func(c *server.Peer, _ string, _ []string) { c.WriteInt(1) },
		"empty":     func(c *server.Peer, _ string, _ []string) { c.WriteLen(0) },
		"short":     func(c *server.Peer, _ string, _ []string) { c.WriteLen(1); c.WriteInt(1) },
		"long": func(c *server.Peer, _ string, _ []string) {
			c.WriteLen(9)
			for i := range 9 {
				c.WriteInt(i)
			}
		},
		"broken": func(c *server.Peer, _ string, _ []string) { c.WriteRaw("*3\r\n:1\r\n:x\r\n"); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": reply})
			_, limiter := f.limiter(t, ration.WithTimeout(10*time.Second), ration.OnFailure(ration.FailClosed()))
			d, err := limiter.Allow(t.Context(), "key")
			require.ErrorIs(t, failure(d, err), ration.ErrUnavailable)
			require.False(t, d.Allowed)
			require.Zero(t, d.Granted)
			require.Equal(t, 1, f.received("EVALSHA"))

			if name == "integer" {
				return
			}
			// The same where one integer is awaited.
			client, err := ration.New(f.Client, ration.WithTimeout(10*time.Second))
			require.NoError(t, err)
			t.Cleanup(client.Close)
			limiter, err = client.Limiter("one", ration.GCRA{Rate: ration.PerSecond(1), Burst: 5})
			require.NoError(t, err)
			err = failure(limiter.Allow(t.Context(), "key"))
			require.ErrorIs(t, err, ration.ErrUnavailable)
		})
	}
}

// oddContext is done and does not say why.
type oddContext struct{ context.Context }

func (oddContext) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func TestOddContext(t *testing.T) {
	t.Parallel()
	b := newBlocker(t, granted)
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": b.handle})
	_, limiter := f.limiter(t, ration.WithTimeout(10*time.Second))
	err := failure(limiter.Allow(oddContext{t.Context()}, "key"))
	require.ErrorIs(t, err, context.Canceled)
}

// A key that something else wrote to gives an error, not a panic and not an impossible answer.
func TestDamagedKeys(t *testing.T) {
	t.Parallel()
	srv := rationtest.New(t)
	rdb := srv.NewRedis(t)
	now := strconv.FormatInt(srv.Now().UnixMicro(), 10)
	index := strconv.FormatInt(srv.Now().Unix()/60, 10)
	hash := func(fields ...any) []any { return append([]any{"hset"}, fields...) }
	for plan, damages := range map[ration.Plan][][]any{
		ration.TokenBucket{Rate: ration.PerSecond(10), Burst: 5}: {
			hash("l", "0", "p", "1000000", "t", now, "b", "5 1 100000"),
			hash("l", "0", "p", "-1000000", "t", now, "b", "5 1 100000"),
			hash("l", "-4611686018427387904", "p", "0", "t", now, "b", "5 1 100000"),
			hash("l", "-1", "p", "0", "t", now, "b", "5 1 100000"),
			hash("l", "1"),
			hash("l", "1", "p", "0", "t", now, "b", "a plan"),
			hash("l", "x", "p", "0", "t", now, "b", "5 1 100000"),
		},
		ration.SlidingWindow{Limit: 5, Window: time.Minute}: {
			hash("i", index, "p", "-1", "c", "0", "w", "60000000"),
			hash("i", index, "p", "0", "c", "-1", "w", "60000000"),
			hash("i", index, "p", "9e15", "c", "0", "w", "60000000"),
			hash("i", index, "p", "0", "c", "1"),
			hash("i", "x", "p", "0", "c", "1", "w", "60000000"),
		},
		ration.SlidingLog{Limit: 5, Window: time.Minute}: {
			{"zadd", now, "x"},
			{"zadd", now, "100000000001:x"},
			{"zadd", now, "100000000001", now, "x"},
			{"zadd", now, "100000000001:-7"},
			{"set", "1"},
		},
		ration.FixedWindow{Limit: 5, Window: time.Minute}: {{"set", "-5"}, {"set", "x"}, {"zadd", now, "x"}},
		ration.GCRA{Rate: ration.PerSecond(10), Burst: 5}: {{"set", "x"}, {"set", ""}, {"zadd", now, "x"}},
	} {
		limiter, err := srv.Client.Limiter(strings.Fields(plan.String())[0], plan)
		require.NoError(t, err)
		for i, damage := range damages {
			key := strconv.Itoa(i)
			command := append([]any{damage[0], limiter.StoredKey(key)}, damage[1:]...)
			require.NoError(t, rdb.Do(t.Context(), command...).Err())
			err = failure(limiter.Peek(t.Context(), key))
			require.ErrorIs(t, err, ration.ErrUnavailable, "%v: %v", plan, damage)
			err = failure(limiter.Allow(t.Context(), key))
			require.ErrorIs(t, err, ration.ErrUnavailable, "%v: %v", plan, damage)
			require.NoError(t, limiter.Reset(t.Context(), key))
			d, err := limiter.Allow(t.Context(), key)
			require.NoError(t, err)
			require.True(t, d.Allowed)
		}
	}
}
