package ration_test

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// testFleet is processes that are not told how many they are, in virtual time.
type testFleet struct {
	*ration.VirtualRedis
	clients  []*ration.Client
	limiters []*ration.Limiter
}

func newTestFleet(plan ration.Plan) *testFleet {
	return &testFleet{VirtualRedis: ration.NewVirtualRedis(plan)}
}

// join starts one more process, with a request.
func (f *testFleet) join(t *testing.T, plan ration.Plan, options ...ration.ClientOption) {
	t.Helper()
	rdb := f.NewRedis()
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := ration.New(rdb, append([]ration.ClientOption{silent}, options...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("search", plan)
	require.NoError(t, err)
	f.clients, f.limiters = append(f.clients, client), append(f.limiters, limiter)
	_, err = limiter.Allow(t.Context(), "key")
	require.NoError(t, err)
}

// leave closes the first process.
func (f *testFleet) leave() {
	f.clients[0].Close()
	f.clients, f.limiters = f.clients[1:], f.limiters[1:]
}

// sleep lets time go by, with a request of each process now and then.
func (f *testFleet) sleep(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(time.Until(end), 10*time.Second))
		for _, l := range f.limiters {
			_, err := l.Allow(t.Context(), "key")
			require.NoError(t, err)
		}
	}
}

// requireSize requires all processes to know how many they are.
func (f *testFleet) requireSize(t *testing.T, want int) {
	t.Helper()
	for i, l := range f.limiters {
		require.Equal(t, want, ration.FleetSize(l), "by process %d", i)
	}
}

var hourly = ration.FixedWindow{Limit: 1_000_000, Window: time.Hour}

// A process that comes or goes is known within two seconds, and one that crashed within five.
func TestFleetSize(t *testing.T) {
	t.Parallel()
	brief := ration.FixedWindow{Limit: 1_000_000, Window: time.Minute}
	synctest.Test(t, func(t *testing.T) {
		f := newTestFleet(brief)
		for range 8 {
			f.join(t, brief)
		}
		f.sleep(t, 2*time.Second)
		f.requireSize(t, 8)
		f.join(t, brief)
		time.Sleep(time.Millisecond)
		require.Equal(t, 9, ration.FleetSize(f.limiters[8]), "it knows by its first beat")
		f.sleep(t, time.Second)
		f.requireSize(t, 9)
		f.leave()
		f.sleep(t, 2*time.Second)
		f.requireSize(t, 8)

		f.Crash(f.clients[7])
		crashed := f.limiters[7]
		f.limiters = f.limiters[:7]
		f.sleep(t, 5*time.Second)
		f.requireSize(t, 7)
		require.Equal(t, 8, ration.FleetSize(crashed), "as last known")

		// Who has not used a limiter for ten minutes has no share of it.
		f.limiters = f.limiters[:3]
		f.sleep(t, 9*time.Minute)
		f.requireSize(t, 7)
		f.sleep(t, 2*time.Minute)
		f.requireSize(t, 3)
		f.limiters = nil
		f.sleep(t, 11*time.Minute)
		beats := f.Runs("beat")
		time.Sleep(24 * time.Hour)
		require.Equal(t, beats, f.Runs("beat"), "nobody is there")
	})
}

// Each process beats about once a second, whatever else it does.
func TestBeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newTestFleet(hourly)
		for range 10 {
			f.join(t, hourly)
		}
		f.sleep(t, 2*time.Second)
		before := f.Runs("beat")
		for range 50 {
			f.sleep(t, 2*time.Second)
		}
		require.InDelta(t, 10*100/.95, f.Runs("beat")-before, 20)
	})
}

// Before anything is known, a fleet is as large as was said, else one.
func TestFleetSizeIsNotKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newTestFleet(hourly)
		f.Hang()
		f.join(t, hourly)
		f.join(t, hourly, ration.WithFleetSize(5))
		f.sleep(t, time.Minute)
		require.Equal(t, 1, ration.FleetSize(f.limiters[0]))
		require.Equal(t, 5, ration.FleetSize(f.limiters[1]))
		f.Return()
		f.sleep(t, 3*time.Second)
		f.requireSize(t, 2)
	})
}

// The size that was known last holds through an outage, and until all are there again after it.
func TestFleetSizeSurvivesOutage(t *testing.T) {
	t.Parallel()
	first := rand.Uint64()
	for seed := first; seed < first+6; seed++ {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			f := newTestFleet(hourly)
			for range 8 {
				f.join(t, hourly)
				time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
			}
			f.sleep(t, 2*time.Second)
			f.requireSize(t, 8)
			for range 5 {
				[]func(){f.Hang, f.Refuse, f.Fault}[random.IntN(3)]()
				f.sleep(t, time.Duration(random.IntN(20_000))*time.Millisecond)
				f.requireSize(t, 8)
				f.Return()
				for range 100 {
					f.sleep(t, time.Duration(random.IntN(100))*time.Millisecond)
					f.requireSize(t, 8)
				}
			}
			f.leave()
			f.sleep(t, 6*time.Second)
			f.requireSize(t, 7)
		})
	}
}

// Where all start at once, the first that beat know of few others: until they do, the fleet is no smaller than was said.
func TestFleetThatStartsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newTestFleet(hourly)
		f.join(t, hourly, ration.WithFleetSize(8))
		for range 7 {
			require.Equal(t, 8, ration.FleetSize(f.limiters[0]))
			time.Sleep(50 * time.Millisecond)
			require.Equal(t, 8, ration.FleetSize(f.limiters[0]))
			f.join(t, hourly, ration.WithFleetSize(2))
		}
		time.Sleep(500 * time.Millisecond)
		f.requireSize(t, 8)
		f.join(t, hourly, ration.WithFleetSize(2))
		f.sleep(t, time.Second)
		f.requireSize(t, 9)
	})
}

// Each process grants its share, without having been told how many they are.
func TestSharesOfAFleetThatKnowsItsSize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := ration.FixedWindow{Limit: 1000, Window: time.Hour}
		f := newTestFleet(plan)
		for range 8 {
			f.join(t, plan)
		}
		f.sleep(t, 2*time.Second)
		f.Hang()
		granted := 0
		for _, l := range f.limiters {
			for range 1000 {
				d, err := l.Allow(t.Context(), "fresh")
				require.NoError(t, err)
				require.Equal(t, ration.SourceLocal, d.Source)
				if d.Allowed {
					granted++
				}
			}
		}
		require.Equal(t, 1000, granted)
	})
}

// A fleet that grows during an outage has smaller shares at once. One that becomes smaller has greater ones where nothing is granted by
// that which those who are gone had already: of a bucket its rate, of a window the next one.
func TestSharesWhenTheFleetChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		plan                             ration.Plan
		atFirst, grown, shrunk, nextHour int64
	}{
		{ration.FixedWindow{Limit: 1200, Window: time.Hour}, 300, 0, 0, 1200},
		{ration.SlidingLog{Limit: 1200, Window: time.Hour}, 300, 0, 0, 1200},
		{ration.TokenBucket{Rate: ration.PerHour(1200), Burst: 1200}, 300, 0, 0, 1200},
		{ration.GCRA{Rate: ration.PerHour(1200), Burst: 1200}, 300, 0, 0, 1200},
	} {
		t.Run(c.plan.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newTestFleet(c.plan)
				f.Hang()
				f.join(t, c.plan, ration.WithFleetSize(4))
				l := f.limiters[0]
				all := func() int64 {
					d, err := l.AllowUpTo(t.Context(), "key", 10_000)
					require.NoError(t, err)
					require.Equal(t, ration.SourceLocal, d.Source)
					return d.Granted
				}
				require.Equal(t, c.atFirst-1, all())
				ration.SetFleetSize(l, 6)
				require.Equal(t, c.grown, all())
				ration.SetFleetSize(l, 1)
				require.Equal(t, c.shrunk, all())
				time.Sleep(2 * time.Hour)
				require.Equal(t, c.nextHour, all())
			})
		})
	}
}

// B89: whoever closes what he made leaves nothing behind.
func TestGoroutinesOfB89(t *testing.T) { //nolint:paralleltest // counts goroutines
	server := rationtest.New(t)
	before := runtime.NumGoroutine()
	for range 1000 {
		rdb := server.NewRedis(t)
		client, err := ration.New(rdb, ration.WithTimeout(10*time.Second))
		require.NoError(t, err)
		limiter, err := client.Limiter("search", hourly, ration.WithPrefetch(ration.Prefetch{Max: 10}))
		require.NoError(t, err)
		for range 4 {
			d, err := limiter.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.NoError(t, d.Cause)
		}
		client.Close()
		client.Close()
		_, err = limiter.Allow(t.Context(), "key")
		require.ErrorIs(t, err, ration.ErrClosed)
		_ = rdb.Close()
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []string{"ration:search:fw1w:{key}"}, server.NewRedis(t).Keys(t.Context(), "*").Val(), "all have left")
}

// Those who use a limiter rarely share its quota too, for as long as what was granted matters.
func TestRareUsersAreCounted(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for _, c := range []struct {
		plan ration.Plan
		want time.Duration
	}{
		{ration.FixedWindow{Limit: 1, Window: time.Second}, 10 * time.Minute},
		{ration.SlidingWindow{Limit: 1, Window: time.Hour}, time.Hour},
		{ration.SlidingLog{Limit: 1, Window: 7 * day}, day},
		{ration.TokenBucket{Rate: ration.PerHour(2), Burst: 3}, 90 * time.Minute},
		{ration.GCRA{Rate: ration.PerDay(1), Burst: 100}, day},
		{ration.MultiPlan{
			{Name: "second", Plan: ration.GCRA{Rate: ration.PerSecond(1), Burst: 1}},
			{Name: "hour", Plan: ration.FixedWindow{Limit: 1, Window: time.Hour}},
		}, time.Hour},
	} {
		require.Equal(t, c.want, ration.CountedFor(c.plan), "%v", c.plan)
	}
	synctest.Test(t, func(t *testing.T) {
		plan := ration.FixedWindow{Limit: 8, Window: day}
		f := newTestFleet(plan)
		for range 8 {
			f.join(t, plan)
			time.Sleep(11 * time.Minute)
		}
		f.requireSize(t, 8)
	})
}

// Limiters of one name are one presence of their process.
func TestLimitersOfOneNameBeatOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newTestFleet(hourly)
		f.join(t, hourly)
		for range 1000 {
			limiter, err := f.clients[0].Limiter("search", hourly)
			require.NoError(t, err)
			_, err = limiter.Allow(t.Context(), "key")
			require.NoError(t, err)
		}
		time.Sleep(10 * time.Second)
		require.Less(t, f.Runs("beat"), 20)
		f.requireSize(t, 1)
	})
}

// Close comes back from wherever it is called, an observer too, and however many limiters there are.
func TestCloseInAnObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		f := newTestFleet(hourly)
		f.join(t, hourly, ration.WithObserver(&r))
		closed := make(chan time.Duration, 1)
		r.then = func() {
			begin := time.Now()
			f.clients[0].Close()
			closed <- time.Since(begin)
		}
		f.Hang()
		require.Less(t, <-closed, 8*time.Second) // a beat opens the breaker
		f.Return()
		time.Sleep(10 * time.Second)
	})
	synctest.Test(t, func(t *testing.T) {
		f := newTestFleet(hourly)
		f.join(t, hourly, ration.WithTimeout(time.Second))
		for i := range 5000 {
			limiter, err := f.clients[0].Limiter("limiter-"+strconv.Itoa(i), hourly)
			require.NoError(t, err)
			_, err = limiter.Allow(t.Context(), "key")
			require.NoError(t, err)
		}
		time.Sleep(10 * time.Second)
		f.Delay(80 * time.Millisecond)
		begin := time.Now()
		f.clients[0].Close()
		require.Less(t, time.Since(begin), 7*time.Second)
		f.Delay(0)
		time.Sleep(10 * time.Second)
	})
}
