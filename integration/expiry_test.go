package integration

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// B03: first takes that race leave a key with a lifetime.
func TestParallelFirstTakesLeaveLifetime(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s := startServer(t, image)
		for _, plan := range []ration.Plan{
			ration.FixedWindow{Limit: 1000, Window: time.Minute},
			ration.FixedWindow{Limit: 1000, Window: time.Hour, Aligned: true},
			ration.FixedWindow{Limit: 1000, Window: time.Minute, RestartOnDeny: true},
			ration.SlidingWindow{Limit: 1000, Window: time.Minute},
			ration.SlidingLog{Limit: 1000, Window: time.Minute},
			ration.TokenBucket{Rate: ration.PerMinute(1000), Burst: 1000},
			ration.GCRA{Rate: ration.PerMinute(1000), Burst: 1000},
		} {
			prefix := freshPrefix()
			limiter, err := newClient(t, s.rdb, ration.WithPrefix(prefix)).Limiter("limiter", plan)
			require.NoError(t, err)
			const callers = 100
			allowed := make([]bool, callers)
			var group sync.WaitGroup
			for i := range callers {
				group.Go(func() {
					d, err := byRedis(limiter.Allow(t.Context(), "tenant:42"))
					allowed[i] = err == nil && d.Allowed
				})
			}
			group.Wait()
			require.NotContains(t, allowed, false, "%v", plan)
			keys, err := s.rdb.Keys(t.Context(), prefix+":*").Result()
			require.NoError(t, err)
			require.Len(t, keys, 1)
			left, err := s.rdb.PTTL(t.Context(), keys[0]).Result()
			require.NoError(t, err)
			require.Positive(t, left, "%v", plan)
			require.LessOrEqual(t, left, time.Hour)
		}
	})
}
