package integration

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// A server that stands still costs each caller its timeout and no more, whatever the options of the redis client; nobody
// takes the silence for a denial, and nothing is left behind once the server goes on.
//
// It is not parallel: it counts goroutines, and measures time.
func TestServerHangs(t *testing.T) {
	s := startServer(t, redis8)
	for name, change := range map[string]func(*redis.Options){
		"default options":         nil,
		"with the context":        func(o *redis.Options) { o.ContextTimeoutEnabled = true },
		"without any timeout":     func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = -1, -1, time.Hour },
		"a pool of one":           func(o *redis.Options) { o.PoolSize = 1 },
		"retries and a long dial": func(o *redis.Options) { o.MaxRetries, o.DialTimeout = 10, time.Minute },
	} {
		t.Run(name, func(t *testing.T) { testServerHangs(t, s, change) })
	}
}

const (
	hangTimeout = 50 * time.Millisecond
	// hangSlack is how late a busy machine may let a goroutine run.
	hangSlack = time.Second
	// hangPlaces bounds the calls on their way.
	hangPlaces = 20
)

func testServerHangs(t *testing.T, s *server, change func(*redis.Options)) {
	rdb := s.newRedis(t, change)
	client, err := ration.New(rdb,
		ration.WithPrefix(freshPrefix()), ration.WithTimeout(hangTimeout), ration.WithMaxInFlight(hangPlaces),
		ration.WithBreaker(ration.Breaker{Failures: math.MaxInt, Share: 1}), ration.OnFailure(ration.FailClosed()))
	require.NoError(t, err)
	defer client.Close()
	limiter, err := client.Limiter("limiter", ration.FixedWindow{Limit: 1000, Window: time.Hour})
	require.NoError(t, err)
	await(t, "a decision", func(ctx context.Context) error {
		_, err := byRedis(limiter.Allow(ctx, "tenant:42"))
		return err
	})
	ofRedis := goroutinesIn(redisPackage)

	unpause := s.box.pause(t)
	calls := make([]hungCall, 5+5*hangPlaces)
	for i := range 5 {
		calls[i] = makeCall(limiter)
	}
	var group sync.WaitGroup
	for i := 5; i < len(calls); i++ {
		group.Go(func() { calls[i] = makeCall(limiter) })
	}
	group.Wait()
	for _, c := range calls {
		require.ErrorIs(t, c.err, ration.ErrUnavailable)
		require.ErrorIs(t, c.err, ration.ErrTimeout)
		require.False(t, c.decision.Allowed)
		require.GreaterOrEqual(t, c.took, hangTimeout)
		require.Less(t, c.took, hangTimeout+hangSlack)
	}
	hung := goroutinesIn(executorType)
	require.Positive(t, hung, "no call hangs, or the type has another name")
	require.LessOrEqual(t, hung, hangPlaces)
	// The redis client may dial in a goroutine of its own for each call, and look after its pool in one or two.
	require.LessOrEqual(t, goroutinesIn(redisPackage), ofRedis+2*hangPlaces+2)

	unpause()
	await(t, "decisions to come from Redis again", func(ctx context.Context) error {
		_, err := byRedis(limiter.Allow(ctx, "tenant:42"))
		return err
	})
	client.Close()
	await(t, "goroutines to end", func(context.Context) error {
		ours, theirs := goroutinesIn(executorType), goroutinesIn(redisPackage)
		if ours > 0 || theirs > ofRedis {
			return fmt.Errorf("%d of ours, and %d of the redis client, which had %d", ours, theirs, ofRedis)
		}
		return nil
	})
}

// What a goroutine's stack names, where it runs a call of ours, or is at work in the redis client.
const (
	executorType = "github.com/go-ration/ration.(*executor)"
	redisPackage = "github.com/redis/go-redis/v9"
)

// goroutinesIn counts the goroutines whose stack names something. Those of the Docker client come and go as they like.
func goroutinesIn(name string) int {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	n := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, name) {
			n++
		}
	}
	return n
}

type hungCall struct {
	decision ration.Decision
	err      error
	took     time.Duration
}

func makeCall(limiter *ration.Limiter) hungCall {
	begin := time.Now()
	d, err := byRedis(limiter.Allow(context.Background(), "tenant:42"))
	return hungCall{d, err, time.Since(begin)}
}

// Close comes back while the server hangs, and so does the call that it finds on its way.
func TestCloseWhileServerHangs(t *testing.T) {
	s := startServer(t, redis8)
	rdb := s.newRedis(t, func(o *redis.Options) { o.ReadTimeout = -1 })
	client := newClient(t, rdb, ration.WithTimeout(time.Hour))
	limiter, err := client.Limiter("limiter", fivePerMinute)
	require.NoError(t, err)
	_, err = byRedis(limiter.Allow(t.Context(), "tenant:42"))
	require.NoError(t, err)
	unpause := s.box.pause(t)
	answered := make(chan error, 1)
	go func() {
		_, err := byRedis(limiter.Allow(context.Background(), "tenant:42"))
		answered <- err
	}()
	require.Eventually(t, func() bool { return rdb.PoolStats().IdleConns == 0 }, patience, time.Millisecond,
		"the call is not on its way")
	begin := time.Now()
	client.Close()
	require.Less(t, time.Since(begin), 10*time.Second)
	_, err = byRedis(limiter.Allow(t.Context(), "tenant:42"))
	require.ErrorIs(t, err, ration.ErrClosed)
	unpause()
	require.NoError(t, <-answered)
}
