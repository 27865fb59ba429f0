package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// B65: replies that come too late cost their callers the timeout and not the delay, with a redis client of default options; and what
// they granted is given back.
//
// It is not parallel: it counts goroutines, and measures time.
func TestSlowRepliesOfB65(t *testing.T) {
	const (
		timeout = 25 * time.Millisecond
		delay   = 200 * time.Millisecond
		takes   = 100
	)
	s := startServer(t, redis8)
	plan := ration.FixedWindow{Limit: 1000, Window: time.Hour}
	for name, c := range map[string]struct {
		callers, each int
		half          time.Duration // before which half of them end; a hundred at once are slow to start
	}{
		"in sequence": {callers: 1, each: takes, half: 40 * time.Millisecond},
		"at once":     {callers: takes, each: 1, half: delay / 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRoad(t, s.addr)
			rdb := redis.NewClient(&redis.Options{Addr: r.addr})
			defer func() { _ = rdb.Close() }()
			prefix := freshPrefix()
			client := newClient(t, rdb, ration.WithPrefix(prefix), ration.WithTimeout(timeout), withoutBreaker())
			limiter, err := client.Limiter("limiter", plan)
			require.NoError(t, err)
			direct, err := newClient(t, s.rdb, ration.WithPrefix(prefix)).Limiter("limiter", plan)
			require.NoError(t, err)
			_, err = byRedis(direct.AllowN(t.Context(), "tenant:0", 1)) // so that the server knows the script
			require.NoError(t, err)
			keepConnections(t, rdb, 5) // fewer than would be needed
			before := countScriptCalls(t, s.rdb)

			r.delayReplies(t, delay)
			calls := makeCalls(limiter, "tenant:42", c.callers, c.each)
			for _, call := range calls {
				call.requireDecidedWithout(t)
				require.ErrorIs(t, call.decision.Cause, ration.ErrTimeout)
			}
			requireInTime(t, calls, timeout, c.half, delay)

			awaitCallsEnded(t)
			require.Positive(t, countScriptCalls(t, s.rdb).minus(before).started, "no call was charged")
			requireRemaining(t, direct, plan.Limit)
		})
	}
}

// Of a thousand calls whose answers come too late none is charged twice, and all that was granted is given back.
//
// It is not parallel: it counts goroutines, and a call is sent only if the machine comes to it within the timeout.
func TestLateRepliesAreGivenBack(t *testing.T) {
	const (
		atOnce      = 4 // as many as go at once; more would wait for those, and not be sent
		rounds      = 250
		connections = 150
	)
	plan := ration.FixedWindow{Limit: 10_000, Window: time.Hour}
	s := startServer(t, redis8)
	r := startRoad(t, s.addr)
	rdb := redis.NewClient(&redis.Options{Addr: r.addr, PoolSize: 2 * connections})
	defer func() { _ = rdb.Close() }()
	prefix := freshPrefix()
	client := newClient(t, rdb, ration.WithPrefix(prefix), ration.WithTimeout(20*time.Millisecond),
		ration.WithBreaker(ration.Breaker{Failures: 2 * atOnce * rounds, Share: 1}))
	limiter, err := client.Limiter("limiter", plan)
	require.NoError(t, err)
	direct, err := newClient(t, s.rdb, ration.WithPrefix(prefix)).Limiter("limiter", plan)
	require.NoError(t, err)
	d, err := byRedis(direct.Allow(t.Context(), "tenant:0")) // so that the server knows the scripts
	require.NoError(t, err)
	require.NoError(t, direct.Refund(t.Context(), d))
	keepConnections(t, rdb, connections)
	before := countScriptCalls(t, s.rdb)

	r.delayReplies(t, 200*time.Millisecond)
	for range rounds {
		for _, c := range makeCalls(limiter, "tenant:42", atOnce, 1) {
			c.requireDecidedWithout(t)
		}
	}
	awaitCallsEnded(t)
	calls := countScriptCalls(t, s.rdb).minus(before)
	t.Logf("%d calls of scripts by %d takes", calls.started, atOnce*rounds)
	require.Equal(t, scriptCalls{started: calls.started}, calls)
	require.LessOrEqual(t, calls.started, int64(2*atOnce*rounds), "each is charged once at most, and given back once")
	require.GreaterOrEqual(t, calls.started, int64(atOnce*rounds), "less than half of them were sent")
	require.Zero(t, calls.started%2, "one is given back for each that was charged")
	requireRemaining(t, direct, plan.Limit)
}

// Close waits for a call whose caller has left, and what that was granted is given back as at any other time.
func TestCloseGivesLateGrantsBack(t *testing.T) {
	t.Parallel()
	s := startServer(t, redis8)
	r := startRoad(t, s.addr)
	rdb := redis.NewClient(&redis.Options{Addr: r.addr})
	defer func() { _ = rdb.Close() }()
	prefix := freshPrefix()
	plan := ration.FixedWindow{Limit: 5, Window: time.Hour}
	client := newClient(t, rdb, ration.WithPrefix(prefix), ration.WithTimeout(100*time.Millisecond))
	limiter, err := client.Limiter("limiter", plan)
	require.NoError(t, err)
	direct, err := newClient(t, s.rdb, ration.WithPrefix(prefix)).Limiter("limiter", plan)
	require.NoError(t, err)
	await(t, "a decision by Redis", func(ctx context.Context) error {
		_, err := byRedis(limiter.Allow(ctx, "tenant:0"))
		return err
	})

	r.delayReplies(t, 500*time.Millisecond)
	makeCall(limiter, "tenant:42").requireDecidedWithout(t)
	await(t, "the charge", func(ctx context.Context) error {
		d, err := byRedis(direct.Peek(ctx, "tenant:42"))
		if err == nil && d.Remaining != 4 {
			err = fmt.Errorf("%d remain", d.Remaining)
		}
		return err
	})
	client.Close()
	requireRemaining(t, direct, 5)
}

// Of a grant that comes too late for a caller who was admitted with less, all goes back, and is charged with what he has.
func TestRestOfALateGrantIsGivenBack(t *testing.T) {
	t.Parallel()
	s := startServer(t, redis8)
	r := startRoad(t, s.addr)
	for _, plan := range []ration.Plan{
		ration.SlidingLog{Limit: 40, Window: time.Hour},
		ration.FixedWindow{Limit: 40, Window: time.Hour},
		ration.MultiPlan{{Name: "log", Plan: ration.SlidingLog{Limit: 40, Window: time.Hour}}},
	} {
		rdb := redis.NewClient(&redis.Options{Addr: r.addr})
		t.Cleanup(func() { _ = rdb.Close() })
		prefix := freshPrefix()
		limiter, err := newClient(t, rdb, ration.WithPrefix(prefix), ration.WithTimeout(100*time.Millisecond), ration.WithFleetSize(4),
			ration.OnFailure(ration.FailLocal())).Limiter("limiter", plan)
		require.NoError(t, err)
		direct, err := newClient(t, s.rdb, ration.WithPrefix(prefix)).Limiter("limiter", plan)
		require.NoError(t, err)
		require.NoError(t, rdb.Ping(t.Context()).Err())
		lift := r.delayReplies(t, 500*time.Millisecond)
		d, err := limiter.AllowUpTo(t.Context(), "tenant:42", 40)
		require.NoError(t, err)
		require.Equal(t, ration.SourceLocal, d.Source)
		require.EqualValues(t, 10, d.Granted)
		lift()
		await(t, "what he has to be charged, and no more", func(ctx context.Context) error {
			d, err := byRedis(direct.Peek(ctx, "tenant:42"))
			if err == nil && d.Remaining != 30 {
				err = fmt.Errorf("%v: %d remain", plan, d.Remaining)
			}
			return err
		})
	}
}
