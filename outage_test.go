package ration_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// However Redis comes and goes, hangs and refuses, one process is granted no more than the plan's bound, in any span.
func TestOutagesAtRandom(t *testing.T) {
	t.Parallel()
	const limit, window = 20, 20 * time.Second
	inWindow := func(time.Duration) int64 { return limit }
	inBucket := func(span time.Duration) int64 { return limit + int64(span/time.Second) }
	for _, c := range []struct {
		plan  ration.Plan
		bound func(span time.Duration) int64 // units
		spans time.Duration                  // that it is about
	}{
		{ration.SlidingLog{Limit: limit, Window: window}, inWindow, window},
		{ration.TokenBucket{Rate: ration.PerSecond(1), Burst: limit}, inBucket, time.Hour},
		{ration.GCRA{Rate: ration.PerSecond(1), Burst: limit}, inBucket, time.Hour},
	} {
		t.Run(c.plan.String(), func(t *testing.T) {
			t.Parallel()
			first := rand.Uint64()
			for seed := first; seed < first+20; seed++ {
				synctest.Test(t, func(t *testing.T) {
					grants := grantsAtRandom(t, newOutage(t, c.plan, 1), rand.New(rand.NewPCG(seed, 0)))
					for i, from := range grants {
						sum := int64(0)
						for _, to := range grants[i:] {
							span := to.at.Sub(from.at)
							if span >= c.spans {
								break
							}
							sum += to.units
							require.LessOrEqual(t, sum, c.bound(span), "in %v, seed %d", span, seed)
						}
					}
				})
			}
		})
	}
}

type timedGrant struct {
	at    time.Time
	units int64
}

// grantsAtRandom asks a process for units while its Redis comes and goes.
func grantsAtRandom(t *testing.T, o *outage, random *rand.Rand) (grants []timedGrant) {
	t.Helper()
	states := []func(){o.Return, o.Return, o.Return, o.Hang, o.Refuse, o.Fault}
	next := time.Now()
	for range 1000 {
		if !time.Now().Before(next) {
			states[random.IntN(len(states))]()
			next = time.Now().Add(time.Duration(random.IntN(15_000)) * time.Millisecond)
		}
		d, err := o.limiters[0].AllowN(t.Context(), "key", random.Int64N(4))
		require.NoError(t, err)
		if d.Granted > 0 {
			grants = append(grants, timedGrant{time.Now(), d.Granted})
		}
		time.Sleep(time.Duration(random.IntN(600)) * time.Millisecond)
	}
	require.NotEmpty(t, grants)
	return grants
}
