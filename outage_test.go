package ration_test

import (
	"fmt"
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

// A fleet whose Redis comes back is granted no fresh burst, whatever was refilled in it meanwhile, but only what the plan has. Where Redis
// had answered with faults, no breaker holds the others back, and each process may be granted a request before they have paid.
func TestNoFreshBurstOnReturn(t *testing.T) {
	t.Parallel()
	const processes, rate = 8, 100
	for _, plan := range []ration.Plan{
		ration.TokenBucket{Rate: ration.PerSecond(rate), Burst: 80},
		ration.TokenBucket{Rate: ration.PerSecond(rate), Burst: 24},
		ration.GCRA{Rate: ration.PerSecond(rate), Burst: 80},
	} {
		for name, c := range map[string]struct {
			away  func(o *outage)
			bound float64
		}{
			"hangs":   {(*outage).Hang, 1},
			"refuses": {(*outage).Refuse, 1},
			"faults":  {(*outage).Fault, processes},
		} {
			t.Run(name+" "+plan.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					o := newOutage(t, plan, processes)
					burst := float64(map[bool]int{true: 24, false: 80}[plan.String() == "token-bucket 100/s burst 24"])
					level, at, lowest, admitted := burst, time.Now(), 0.0, 0 // of an ideal bucket
					offer := func(span time.Duration) {
						for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
							for i := range processes {
								if o.allow(t, i, "key").Allowed {
									level = min(level+rate*time.Since(at).Seconds(), burst) - 1
									at, lowest, admitted = time.Now(), min(lowest, level), admitted+1
								}
							}
						}
					}
					offer(3 * time.Second)
					begin, before := time.Now(), admitted
					for range 4 {
						level, lowest = max(level, 0), 0
						c.away(o)
						offer(4 * time.Second)
						o.Return()
						offer(4 * time.Second)
						require.GreaterOrEqual(t, lowest, -c.bound)
					}
					share := float64(admitted-before) / (rate * time.Since(begin).Seconds())
					require.Greater(t, share, .9, "of the rate")
				})
			})
		}
	}
}

// What a bucket earns in a time is rounded up, at most all it holds, and does not overflow.
func TestEarned(t *testing.T) {
	t.Parallel()
	slow, fast := ration.TokenBucket{Rate: ration.PerHour(1), Burst: 5}, ration.GCRA{Rate: ration.PerSecond(1_000_000), Burst: 1_000_000}
	for _, c := range []struct {
		plan ration.Plan
		span time.Duration
		want int64
	}{
		{slow, 0, 0},
		{slow, 1, 1},
		{slow, 90 * time.Minute, 2},
		{slow, 1 << 62, 5},
		{fast, time.Millisecond, 1001},
		{fast, time.Hour, 1_000_000},
		{fast, 1 << 62, 1_000_000},
		{hourly, time.Hour, 0},
	} {
		require.Equal(t, c.want, ration.Earned(c.plan, c.span), "%v in %v", c.plan, c.span)
	}
}

// Windows that are over before Redis comes back cost the fleet no quota afterwards: what was granted in the window that is open then is
// charged for as long as that has to go.
func TestWindowsAfterOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes, limit, window = 8, 400, 4 * time.Second
		o := newOutage(t, ration.FixedWindow{Limit: limit, Window: window}, processes)
		admitted := 0
		offer := func(span time.Duration) {
			for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				for i := range processes {
					if o.allow(t, i, "key").Allowed {
						admitted++
					}
				}
			}
		}
		offer(10 * time.Second)
		begin := time.Now()
		admitted = 0
		for i := range 20 {
			o.Refuse()
			offer(window*2 + time.Duration(i)*217*time.Millisecond)
			o.Return()
			offer(window * 2)
		}
		quota := limit * float64(time.Since(begin)) / float64(window)
		t.Logf("%d admitted, %.0f allowed", admitted, quota)
		require.Less(t, float64(admitted), 1.05*quota+limit)
		require.Greater(t, float64(admitted), .93*quota)
	})
}

// A payment that never ends is taken for charged after a minute. Meanwhile Redis decides, under the share of this process.
func TestPaymentWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, hourly, 1)
		o.allow(t, 0, "key")
		o.Refuse()
		require.Equal(t, 10, o.admits(t, 10))
		o.LosePayments()
		o.Return()
		time.Sleep(30 * time.Second)
		require.Equal(t, 1, ration.Owing(o.clients[0]))
		require.Equal(t, ration.SourceRedis, o.allow(t, 0, "key").Source)
		require.Equal(t, 1, ration.Owing(o.clients[0]))
		time.Sleep(time.Minute)
		require.Equal(t, ration.SourceRedis, o.allow(t, 0, "key").Source)
		require.Zero(t, ration.Owing(o.clients[0]))
		time.Sleep(10 * time.Minute) // it ends after all
		require.Zero(t, ration.Owing(o.clients[0]))
	})
}

// Keys that Redis was charged with give their places to others in the next outage.
func TestPaidKeysGiveTheirPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const places = 100
		plan := ration.FixedWindow{Limit: 10, Window: 24 * time.Hour}
		o := newOutage(t, plan, 1, ration.WithLocalKeys(places))
		for outage := range 5 {
			o.Refuse()
			for i := range places * 9 / 10 { // places are looked for by chance
				require.True(t, o.allow(t, 0, fmt.Sprint("key ", outage, " ", i)).Allowed, "in outage %d, key %d", outage, i)
			}
			o.Return()
			time.Sleep(5 * time.Second)
			require.Zero(t, ration.Owing(o.clients[0]))
		}
	})
}

// Very many keys that owe are paid before Redis decides them by itself again.
func TestManyKeysOwe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keys, limit = 1000, 10
		o := newOutage(t, ration.FixedWindow{Limit: limit, Window: time.Hour}, 2)
		granted := make([]int, keys)
		offer := func(times int) {
			for range times {
				for i := range keys {
					for process := range 2 {
						if o.allow(t, process, fmt.Sprint("key ", i)).Allowed {
							granted[i]++
						}
					}
				}
			}
		}
		o.Refuse()
		offer(limit)
		o.Delay(time.Millisecond)
		o.Return()
		time.Sleep(1300 * time.Millisecond)
		o.Delay(0)
		offer(limit)
		for i, n := range granted {
			require.Equal(t, limit, n, "key %d", i)
		}
	})
}

// To charge a debt restarts no window.
func TestArgumentsOfDebt(t *testing.T) {
	t.Parallel()
	for plan, want := range map[ration.Plan]string{
		ration.FixedWindow{Limit: 5, Window: time.Minute}:                      "0",
		ration.FixedWindow{Limit: 5, Window: time.Minute, Aligned: true}:       "1",
		ration.FixedWindow{Limit: 5, Window: time.Minute, RestartOnDeny: true}: "0",
	} {
		args, err := ration.ArgumentsOfDebt(plan)
		require.NoError(t, err)
		require.Equal(t, []any{"5", "60000", want}, args, "%v", plan)
	}
}
