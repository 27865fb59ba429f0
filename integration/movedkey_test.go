package integration

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/conformance"
)

// A key that moves to a server whose clock is ahead says what one says that stayed, by the same clock. MIGRATE sends the time
// that a key has to live, not the moment at which it ends, so that this moment becomes later by as much as the clocks differ, and
// by what the way takes. Plans that keep their moments in the value go by those. A fixed window has no other moment, and ends
// later.
func TestKeyMovedToServerWhoseClockIsAhead(t *testing.T) {
	t.Parallel()
	const ahead = 50 * time.Millisecond
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s, clock := startServerWithClock(t, image, conformance.T0)
		for _, plan := range []ration.Plan{
			ration.FixedWindow{Limit: 10, Window: time.Second, Aligned: true},
			ration.FixedWindow{Limit: 10, Window: time.Second},
			ration.SlidingWindow{Limit: 10, Window: time.Second},
			ration.SlidingLog{Limit: 10, Window: time.Second},
			ration.TokenBucket{Rate: ration.PerSecond(100), Burst: 100},
			ration.GCRA{Rate: ration.PerSecond(100), Burst: 100},
			ration.GCRA{Rate: ration.PerDay(999_983), Burst: 10}, // whose moments come round in less than a day
		} {
			t.Run(plan.String(), func(t *testing.T) {
				clock.Set(conformance.T0)
				stayed := newLimiter(t, s.rdb, plan)
				prefix := freshPrefix()
				moved, err := newClient(t, s.rdb, ration.WithPrefix(prefix)).Limiter("limiter", plan)
				require.NoError(t, err)
				var full ration.Decision
				for _, limiter := range []*ration.Limiter{stayed, moved} {
					full, err = limiter.AllowUpTo(t.Context(), "tenant:42", 1000)
					require.NoError(t, err)
					require.Equal(t, full.Limit, full.Granted)
				}
				moveToClock(t, s.rdb, theKey(t, s.rdb, prefix), func() { clock.Advance(ahead) })

				later := time.Duration(0)
				if _, ok := plan.(ration.FixedWindow); ok {
					later = ahead
				}
				end := conformance.T0.Add(full.ResetAfter)
				for _, at := range []time.Time{
					conformance.T0.Add(ahead), conformance.T0.Add(ahead + full.ResetAfter/2), end.Add(-time.Microsecond),
					end.Add(2 * time.Millisecond), end.Add(ahead - time.Millisecond), end.Add(ahead + 2*time.Millisecond),
				} {
					clock.Set(at)
					got, err := byRedis(moved.Peek(t.Context(), "tenant:42"))
					require.NoError(t, err)
					clock.Set(at.Add(-later))
					want, err := byRedis(stayed.Peek(t.Context(), "tenant:42"))
					require.NoError(t, err)
					require.Equal(t, want.Remaining, got.Remaining, "%v after it was used up", at.Sub(conformance.T0))
				}
			})
		}
	})
}

// moveToClock does to a key what MIGRATE does, with something in between.
func moveToClock(t *testing.T, rdb *redis.Client, key string, between func()) {
	t.Helper()
	ctx := t.Context()
	value, err := rdb.Dump(ctx, key).Result()
	require.NoError(t, err)
	left, err := rdb.PTTL(ctx, key).Result()
	require.NoError(t, err)
	between()
	require.NoError(t, rdb.RestoreReplace(ctx, key, left, value).Err())
}
