package integration

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// Units that were granted together, to callers who shared a script call or ahead of need, are given back one by one, on every server: the
// quota is whole then, and in a log no grant is given back twice. (To a TokenBucket less goes back, where others gave back since.)
func TestGrantsOfSeveralGoBackOneByOne(t *testing.T) {
	t.Parallel()
	for _, image := range images {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			testGrantsOfSeveral(t, startServer(t, image).rdb)
		})
	}
	for _, image := range clusterImages {
		t.Run("cluster of "+image, func(t *testing.T) {
			t.Parallel()
			testGrantsOfSeveral(t, startCluster(t, image).newRedis(t, nil))
		})
	}
}

func testGrantsOfSeveral(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	const limit, requests, window = 10_000, 300, 24 * time.Hour
	var calls scriptCounter
	rdb.AddHook(&calls)
	log := ration.SlidingLog{Limit: limit, Window: window}
	for _, plan := range []ration.Plan{
		log,
		ration.FixedWindow{Limit: limit, Window: window},
		ration.SlidingWindow{Limit: limit, Window: window},
		ration.GCRA{Rate: ration.PerHour(1), Burst: limit},
		ration.MultiPlan{{Name: "log", Plan: log}, {Name: "window", Plan: ration.FixedWindow{Limit: limit, Window: window}}},
	} {
		for _, isAhead := range []bool{false, true} {
			prefix := freshPrefix()
			options, atOnce := []ration.LimiterOption{}, 50
			if isAhead {
				options, atOnce = append(options, ration.WithPrefetch(ration.Prefetch{Max: 50, TTL: time.Minute})), 1
			}
			client := newClient(t, rdb, ration.WithPrefix(prefix))
			limiter, err := client.Limiter("limiter", plan, options...)
			require.NoError(t, err)
			before := calls.Load()
			granted := askAtOnce(t, limiter, requests, atOnce)
			require.Less(t, calls.Load()-before, int64(requests/2), "%v: script calls are to grant several", plan)
			decisions := client.Stats().Decisions
			if isAhead {
				require.Greater(t, decisions[ration.SourceLease], int64(requests/2), "%v", plan)
			}
			_, isLog := plan.(ration.SlidingLog)
			for _, i := range rand.Perm(requests) {
				require.NoError(t, limiter.Refund(t.Context(), granted[i]))
				if isLog {
					require.NoError(t, limiter.Refund(t.Context(), granted[i]), "which gives nothing back")
				}
			}
			client.Close()
			again, err := newClient(t, rdb, ration.WithPrefix(prefix)).Limiter("limiter", plan)
			require.NoError(t, err)
			d, err := byRedis(again.Peek(t.Context(), "tenant:42"))
			require.NoError(t, err)
			if _, isGCRA := plan.(ration.GCRA); isGCRA { // what each grant would have earned by now is not given back
				require.GreaterOrEqual(t, d.Remaining, int64(limit-1))
				continue
			}
			require.EqualValues(t, limit, d.Remaining, "%v, ahead %v", plan, isAhead)
		}
	}
}

// askAtOnce makes requests for one unit each, so many at once, which must all be granted.
func askAtOnce(t *testing.T, limiter *ration.Limiter, requests, atOnce int) []ration.Decision {
	t.Helper()
	granted := make([]ration.Decision, requests)
	for begin := 0; begin < requests; begin += atOnce {
		var all sync.WaitGroup
		for i := begin; i < begin+atOnce; i++ {
			all.Go(func() {
				d, err := limiter.Allow(t.Context(), "tenant:42")
				if err != nil || d.Cause != nil || !d.Allowed {
					t.Error(d, err)
				}
				granted[i] = d
			})
		}
		all.Wait()
	}
	return granted
}

// scriptCounter is a hook that counts script calls.
type scriptCounter struct{ atomic.Int64 }

func (*scriptCounter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *scriptCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *scriptCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

func (c *scriptCounter) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if cmd.Name() == "evalsha" {
			c.Add(1)
		}
	}
}
