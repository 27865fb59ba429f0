package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// fivePerMinute counts in the open, so that a test sees what was charged.
var fivePerMinute = ration.FixedWindow{Limit: 5, Window: time.Minute}

// B61: a server that has forgotten the scripts is told them again, and nothing is charged twice.
func TestScriptsFlushed(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s := startServer(t, image)
		for _, plan := range []ration.Plan{
			fivePerMinute,
			ration.SlidingWindow{Limit: 5, Window: 100 * 365 * 24 * time.Hour}, // in which we are till 2069
			ration.SlidingLog{Limit: 5, Window: time.Hour},
			ration.TokenBucket{Rate: ration.PerDay(1), Burst: 5},
			ration.GCRA{Rate: ration.PerDay(1), Burst: 5},
		} {
			limiter := newLimiter(t, s.rdb, plan)
			for _, remaining := range []int64{4, 3, 2} {
				require.NoError(t, s.rdb.ScriptFlush(t.Context()).Err())
				d, err := byRedis(limiter.Allow(t.Context(), "tenant:42"))
				require.NoError(t, err)
				require.True(t, d.Allowed)
				require.Equal(t, remaining, d.Remaining)

				require.NoError(t, s.rdb.ScriptFlush(t.Context()).Err())
				d, err = byRedis(limiter.Peek(t.Context(), "tenant:42"))
				require.NoError(t, err)
				require.Equal(t, remaining, d.Remaining)
			}
		}
	})
}

// Scripts that are flushed again and again, under callers who do not wait for each other, cost no caller an error and no
// key a unit.
func TestScriptsFlushedUnderLoad(t *testing.T) {
	t.Parallel()
	s := startServer(t, redis8)
	const callers, calls = 20, 50
	limiter := newLimiter(t, s.rdb, ration.FixedWindow{Limit: 1_000_000, Window: time.Hour})
	flushing, stop := context.WithCancel(t.Context())
	var flusher, group sync.WaitGroup
	flusher.Go(func() {
		for flushing.Err() == nil {
			s.rdb.ScriptFlush(flushing)
		}
	})
	failures := make(chan error, callers*calls)
	for range callers {
		group.Go(func() {
			for range calls {
				if d, err := byRedis(limiter.Allow(t.Context(), "tenant:42")); err != nil || !d.Allowed {
					failures <- fmt.Errorf("%+v: %w", d, err)
				}
			}
		})
	}
	group.Wait()
	stop()
	flusher.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	d, err := byRedis(limiter.Peek(t.Context(), "tenant:42"))
	require.NoError(t, err)
	require.EqualValues(t, 1_000_000-callers*calls, d.Remaining)
}

// B61 after a restart: what was counted is there, the scripts are not, and the connections that the client keeps are dead.
func TestServerRestarted(t *testing.T) {
	t.Parallel()
	s := startServer(t, redis8, withPersistence(), withPublished(map[string]int{serverPort: freePorts(t, 1)[0]}))
	const callers = 10
	rdb := s.newRedis(t, func(o *redis.Options) { o.PoolSize, o.MinIdleConns = callers, callers })
	client := newClient(t, rdb)
	limiter, err := client.Limiter("limiter", fivePerMinute)
	require.NoError(t, err)
	allowAll := func(remaining int64) {
		t.Helper()
		var group sync.WaitGroup
		decisions, errs := make([]ration.Decision, callers), make([]error, callers)
		for i := range callers {
			group.Go(func() { decisions[i], errs[i] = byRedis(limiter.Allow(t.Context(), fmt.Sprint("tenant:", i))) })
		}
		group.Wait()
		for i := range callers {
			require.NoError(t, errs[i])
			require.True(t, decisions[i].Allowed)
			require.Equal(t, remaining, decisions[i].Remaining)
		}
	}

	allowAll(4)
	s.box.stop(t)
	_, err = byRedis(limiter.Allow(t.Context(), "tenant:0"))
	require.ErrorIs(t, err, ration.ErrUnavailable, "while the server is down")
	s.box.start(t)
	await(t, "the server to answer", func(ctx context.Context) error { return s.rdb.Ping(ctx).Err() })
	allowAll(3)
	keys, err := s.rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Len(t, keys, callers)
	for _, key := range keys {
		require.Equal(t, "2", s.rdb.Get(t.Context(), key).Val(), key)
	}
}

// B61 on a cluster: every shard forgets, and every shard is told again.
func TestScriptsFlushedOnCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, redis8)
	prefix := freshPrefix()
	limiter, err := newClient(t, c.newRedis(t, nil), ration.WithPrefix(prefix)).Limiter("limiter", fivePerMinute)
	require.NoError(t, err)
	const keys = 30
	for _, remaining := range []int64{4, 3} {
		c.eachMaster(t, func(ctx context.Context, node *redis.Client) error { return node.ScriptFlush(ctx).Err() })
		for i := range keys {
			d, err := byRedis(limiter.Allow(t.Context(), fmt.Sprint("tenant:", i)))
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Equal(t, remaining, d.Remaining)
		}
	}
	c.eachMaster(t, func(ctx context.Context, node *redis.Client) error {
		stored, err := node.Keys(ctx, prefix+":*").Result()
		if err != nil || len(stored) == 0 {
			return fmt.Errorf("a master without keys: %w", err)
		}
		for _, key := range stored {
			if used, err := node.Get(ctx, key).Result(); err != nil || used != "2" {
				return fmt.Errorf("%s holds %q: %w", key, used, err)
			}
		}
		return nil
	})
}
