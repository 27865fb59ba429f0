package ration_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// outage is a fleet on a Redis that is away now and then, in virtual time.
type outage struct {
	*ration.VirtualRedis
	clients  []*ration.Client
	limiters []*ration.Limiter
}

func newOutage(t *testing.T, plan ration.Plan, processes int, options ...ration.ClientOption) *outage {
	t.Helper()
	o := &outage{VirtualRedis: ration.NewVirtualRedis(plan)}
	for range processes {
		rdb := o.NewRedis()
		t.Cleanup(func() { _ = rdb.Close() })
		client, err := ration.New(rdb, append([]ration.ClientOption{ration.WithFleetSize(processes), silent}, options...)...)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		limiter, err := client.Limiter("search", plan)
		require.NoError(t, err)
		o.clients, o.limiters = append(o.clients, client), append(o.limiters, limiter)
	}
	return o
}

func (o *outage) allow(t *testing.T, i int, key string) ration.Decision {
	t.Helper()
	d, err := o.limiters[i].Allow(t.Context(), key)
	require.NoError(t, err)
	return d
}

func TestFailurePolicies(t *testing.T) {
	t.Parallel()
	plan := ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 10}
	multi := ration.MultiPlan{{Name: "a", Plan: plan}, {Name: "b", Plan: ration.FixedWindow{Limit: 5, Window: time.Minute}}}
	say := func(d ration.Decision) ration.FailurePolicy {
		return ration.FailFunc(func(_ context.Context, r ration.Request, cause error) ration.Decision {
			require.Equal(t, "key", r.Key)
			require.ErrorIs(t, cause, ration.ErrUnavailable)
			return d
		})
	}
	for name, c := range map[string]struct {
		policy  ration.FailurePolicy
		source  ration.Source
		allowed bool
		peeked  bool
	}{
		"open":        {ration.FailOpen(), ration.SourceFailOpen, true, true},
		"closed":      {ration.FailClosed(), ration.SourceFailClosed, false, false},
		"local":       {ration.FailLocal(), ration.SourceLocal, true, true},
		"func allows": {say(ration.Decision{Allowed: true}), ration.SourceFailFunc, true, true},
		"func denies": {say(ration.Decision{}), ration.SourceFailFunc, false, false},
		"func panics": {ration.FailFunc(func(context.Context, ration.Request, error) ration.Decision { panic("no") }), ration.SourceFailFunc, false, false},
	} {
		for _, plan := range []ration.Plan{plan, multi} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				o := newOutage(t, ration.FixedWindow{Limit: 1, Window: time.Hour}, 1)
				o.Refuse()
				limiter, err := o.clients[0].Limiter("policy", plan, ration.OnFailure(c.policy))
				require.NoError(t, err)
				requireDegraded := func(d ration.Decision, err error, allowed bool, granted int64) {
					t.Helper()
					require.NoError(t, err)
					require.Equal(t, allowed, d.Allowed)
					require.Equal(t, c.source, d.Source)
					require.ErrorIs(t, d.Cause, ration.ErrUnavailable)
					require.ErrorContains(t, d.Cause, `limiter "policy"`)
					require.Equal(t, granted, d.Granted)
					require.Equal(t, !allowed, d.RetryAfter > 0)
					if c.source != ration.SourceLocal {
						require.Zero(t, d.Remaining, "it is not known")
					}
				}
				granted := func(n int64) int64 {
					if c.allowed {
						return n
					}
					return 0
				}
				d, err := limiter.AllowN(t.Context(), "key", 2)
				requireDegraded(d, err, c.allowed, granted(2))
				require.NoError(t, limiter.Refund(t.Context(), d))
				d, err = limiter.AllowUpTo(t.Context(), "key", 3)
				requireDegraded(d, err, c.allowed, granted(3))
				d, err = limiter.Peek(t.Context(), "key")
				require.NoError(t, err)
				require.Equal(t, c.source, d.Source)
				require.Equal(t, !d.Allowed, d.RetryAfter > 0)
				if c.source != ration.SourceLocal {
					require.Equal(t, c.peeked, d.Allowed)
				}
				require.ErrorIs(t, limiter.Reset(t.Context(), "key"), ration.ErrUnavailable)

				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_, err = limiter.Allow(ctx, "key")
				require.ErrorIs(t, err, context.Canceled, "the caller's own end is an error")
				_, err = limiter.AllowN(t.Context(), "key", 11)
				require.ErrorIs(t, err, ration.ErrCostExceedsLimit)
			})
		}
	}
}

func TestFailurePoliciesRefused(t *testing.T) {
	t.Parallel()
	rdb := ration.NewVirtualRedis(ration.FixedWindow{Limit: 1, Window: time.Hour}).NewRedis()
	t.Cleanup(func() { _ = rdb.Close() })
	for _, option := range []ration.Option{
		ration.OnFailure(nil), ration.OnFailure(ration.FailFunc(nil)), ration.WithFleetSize(0), ration.WithFleetSize(1_000_001),
	} {
		_, err := ration.New(rdb, option)
		require.ErrorIs(t, err, ration.ErrInvalidOption)
	}
	for _, n := range []int{0, 1_000_001} {
		_, err := ration.New(rdb, ration.WithLocalKeys(n))
		require.ErrorIs(t, err, ration.ErrInvalidOption)
	}
}

// While Redis is away, the fleet grants its quota, each process its share; and when it is back, no more than is left.
func TestFleetInAnOutage(t *testing.T) {
	t.Parallel()
	const processes = 8
	for _, plan := range []ration.Plan{
		ration.FixedWindow{Limit: 100, Window: time.Second},
		ration.FixedWindow{Limit: 100, Window: time.Second, Aligned: true},
		ration.SlidingWindow{Limit: 100, Window: time.Second},
		ration.SlidingLog{Limit: 100, Window: time.Second},
		ration.TokenBucket{Rate: ration.PerSecond(100), Burst: 100},
		ration.TokenBucket{Rate: ration.PerSecond(100), Burst: 4},
		ration.GCRA{Rate: ration.PerSecond(100), Burst: 20},
	} {
		t.Run(plan.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(t, plan, processes)
				admitted := map[string]int{}
				offer := func(phase string, seconds int) {
					for range seconds * 100 {
						for i := range processes {
							if o.allow(t, i, "key").Allowed {
								admitted[phase]++
							}
						}
						time.Sleep(10 * time.Millisecond)
					}
				}
				offer("before", 5)
				o.Refuse()
				offer("outage", 10)
				o.Return()
				offer("after", 10)
				t.Log(admitted)
				require.Greater(t, admitted["outage"], 800)
				require.LessOrEqual(t, admitted["outage"], 1050)
				require.LessOrEqual(t, admitted["before"]+admitted["outage"]+admitted["after"], 2500+100+125)
				require.Greater(t, admitted["after"], 900)
				for _, client := range o.clients {
					require.Zero(t, ration.Owing(client))
				}
			})
		})
	}
}

// A daily quota holds over a day with an outage of five minutes.
func TestDailyQuotaInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes, limit = 8, 1000
		o := newOutage(t, ration.FixedWindow{Limit: limit, Window: 24 * time.Hour, Aligned: true}, processes)
		admitted := 0
		offer := func(times int) {
			for range times {
				for i := range processes {
					if o.allow(t, i, "key").Allowed {
						admitted++
					}
				}
				time.Sleep(time.Second)
			}
		}
		offer(25)
		require.Equal(t, 200, admitted)
		o.Refuse()
		offer(300)
		t.Log(admitted)
		require.Greater(t, admitted, 900, "what is left is used")
		require.LessOrEqual(t, admitted, limit+limit/20)
		o.Return()
		offer(300)
		require.LessOrEqual(t, admitted, limit)
		require.Greater(t, admitted, limit*98/100)
	})
}

// A share below one unit is a unit now and then, and the fleet grants no more than the limit in the mean.
func TestShareBelowOneUnit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes, keys = 10, 400
		o := newOutage(t, ration.FixedWindow{Limit: 3, Window: time.Minute}, processes)
		o.Refuse()
		for window := range 3 {
			admitted := 0
			for key := range keys {
				for i := range processes {
					for range 3 {
						if o.allow(t, i, string(rune('a'+key))).Allowed {
							admitted++
						}
					}
				}
			}
			// 3 a key, by 10 draws of 3 in 10: a deviation of √2.1 a key, of 29 for all.
			require.InDelta(t, 3*keys, admitted, 5*29, "window %d", window)
			time.Sleep(2 * time.Minute)
		}
	})
}

// B87: a flood of keys does not grow the process, and has no allowance of its own.
//
//nolint:paralleltest // measures the heap
func TestFloodOfKeysInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const floods, most, limit = 1_000_000, 10_000, 3
		o := newOutage(t, ration.FixedWindow{Limit: limit, Window: time.Minute}, 1)
		o.Refuse()
		for range 10 {
			o.allow(t, 0, "first")
		}
		before := heap()
		admitted := 0
		for i := range floods {
			if o.allow(t, 0, strconv.Itoa(i)).Allowed {
				admitted++
			}
			if i%10_000 == 0 {
				require.LessOrEqual(t, ration.LocalKeys(o.clients[0]), most)
			}
		}
		require.LessOrEqual(t, ration.LocalKeys(o.clients[0]), most)
		require.LessOrEqual(t, admitted, most+limit)
		require.Less(t, heap()-before, int64(20<<20))
		time.Sleep(2 * time.Minute)
		o.allow(t, 0, "first")
		require.LessOrEqual(t, ration.LocalKeys(o.clients[0]), 1)
	})
}

// heap is how large the heap is, in bytes, when all that nobody needs any more is gone.
func heap() int64 {
	for range 3 { // pools keep what they have for two collections
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Plans that alternate on a key, or on keys that are counted together, have no allowance for each change.
func TestPlansThatAlternateInAnOutage(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{1, 1000} {
		for _, plans := range [][2]ration.Plan{
			{ration.FixedWindow{Limit: 5, Window: time.Minute}, ration.FixedWindow{Limit: 6, Window: time.Minute}},
			{ration.SlidingWindow{Limit: 5, Window: time.Minute}, ration.SlidingWindow{Limit: 6, Window: time.Minute}},
			{ration.SlidingLog{Limit: 5, Window: time.Minute}, ration.SlidingLog{Limit: 6, Window: time.Minute}},
			{ration.TokenBucket{Rate: ration.PerMinute(5), Burst: 5}, ration.TokenBucket{Rate: ration.PerMinute(6), Burst: 6}},
		} {
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(t, plans[0], 1, ration.WithLocalKeys(1))
				o.Refuse()
				admitted := 0
				for i := range 5000 {
					d, err := o.limiters[0].Take(t.Context(), ration.Request{Key: strconv.Itoa(i % keys), Cost: 1, Plan: plans[i%2]})
					require.NoError(t, err)
					if d.Allowed {
						admitted++
					}
				}
				require.LessOrEqual(t, admitted, 6+11, "%v: one key, and the others under each plan", plans[0])
				require.GreaterOrEqual(t, admitted, 5)
			})
		}
	}
}

// The caller's own end is an error, whatever the breaker says.
func TestContextEndedWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 100, Window: time.Minute}, 1)
		o.Refuse()
		for range 10 {
			o.allow(t, 0, "key")
		}
		require.ErrorIs(t, o.allow(t, 0, "key").Cause, ration.ErrBreakerOpen)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := o.limiters[0].Allow(ctx, "key")
		require.ErrorIs(t, err, context.Canceled)
	})
}

// What Redis refuses to be charged with stays owed, and is paid when it can be.
func TestDebtsOutliveFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 100, Window: time.Hour}, 1)
		for range 10 {
			require.Equal(t, ration.SourceRedis, o.allow(t, 0, "key").Source)
		}
		o.Fault()
		for i := range 20 {
			d := o.allow(t, 0, "key")
			require.True(t, d.Allowed)
			require.Equal(t, ration.SourceLocal, d.Source)
			require.EqualValues(t, 100-10-1-i, d.Remaining)
			require.NotErrorIs(t, d.Cause, ration.ErrBreakerOpen, "a fault is an answer")
			time.Sleep(time.Second)
		}
		require.Equal(t, 1, ration.Owing(o.clients[0]))
		o.Return()
		time.Sleep(time.Second)
		require.Zero(t, ration.Owing(o.clients[0]))
		d := o.allow(t, 0, "key")
		require.Equal(t, ration.SourceRedis, d.Source)
		require.EqualValues(t, 100-31, d.Remaining)
	})
}

// Who is decided here while another's payment is on its way is told why the one before was refused, not that Redis is being charged.
func TestCauseWhilePaymentsAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers, each = 16, 50
		o := newOutage(t, ration.TokenBucket{Rate: ration.PerMinute(1), Burst: 1}, 1)
		o.Delay(3 * time.Millisecond)
		o.FaultOf("NOPERM User default has no permissions to run the 'evalsha' command")
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range each {
					d := o.allow(t, 0, "key")
					assert.Equal(t, ration.SourceLocal, d.Source)
					assert.True(t, errors.Is(d.Cause, ration.ErrConfiguration), d.Cause) //nolint:testifylint // not the goroutine of the test
					time.Sleep(time.Millisecond)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, callers*each, o.clients[0].Stats().ConfigurationFaults)
		o.Return()
		time.Sleep(time.Minute)
		require.Zero(t, ration.Owing(o.clients[0]))
		require.Equal(t, ration.SourceRedis, o.allow(t, 0, "key").Source)
	})
}

// A log counts few grants apart here, and never grants more than one that counts them all.
func TestLogInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, window = 5000, 10 * time.Second
		o := newOutage(t, ration.SlidingLog{Limit: limit, Window: window}, 1)
		o.Refuse()
		var admitted []time.Time
		for range 40_000 {
			if o.allow(t, 0, "key").Allowed {
				admitted = append(admitted, time.Now())
			}
			time.Sleep(time.Millisecond)
		}
		for i := limit; i < len(admitted); i++ {
			require.GreaterOrEqual(t, admitted[i].Sub(admitted[i-limit]), window)
		}
		require.Greater(t, len(admitted), limit*3)
		require.LessOrEqual(t, ration.LocalGrants(o.clients[0]), 2*64+2)
	})
}

// A look says what a request for a unit is told: of a denial, how long to wait.
func TestPeekInAnOutage(t *testing.T) {
	t.Parallel()
	for _, plan := range []ration.Plan{
		ration.FixedWindow{Limit: 2, Window: time.Minute},
		ration.SlidingWindow{Limit: 2, Window: time.Minute},
		ration.SlidingLog{Limit: 2, Window: time.Minute},
		ration.TokenBucket{Rate: ration.PerMinute(1), Burst: 2},
		ration.GCRA{Rate: ration.PerMinute(1), Burst: 2},
		ration.MultiPlan{
			{Name: "log", Plan: ration.SlidingLog{Limit: 2, Window: time.Minute}},
			{Name: "gcra", Plan: ration.GCRA{Rate: ration.PerMinute(1), Burst: 5}},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := newOutage(t, ration.FixedWindow{Limit: 1, Window: time.Hour}, 1)
			o.Refuse()
			limiter, err := o.clients[0].Limiter("peek", plan)
			require.NoError(t, err)
			for i := range 3 {
				peeked, err := limiter.Peek(t.Context(), "key")
				require.NoError(t, err)
				require.EqualValues(t, 2-i, peeked.Remaining, "%v", plan)
				d, err := limiter.Allow(t.Context(), "key")
				require.NoError(t, err)
				require.Equal(t, i < 2, d.Allowed)
				require.Equal(t, d.Allowed, peeked.Allowed)
				require.Equal(t, d.RetryAfter, peeked.RetryAfter, "%v", plan)
				require.Equal(t, !d.Allowed, d.RetryAfter > 0)
			}
		})
	}
}

// A Redis that is far away is found out to be back, too.
func TestFarRedisComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 100_000, Window: time.Hour}, 1, ration.WithTimeout(500*time.Millisecond))
		o.Delay(150 * time.Millisecond)
		o.allow(t, 0, "key")
		o.Refuse()
		for range 10 {
			o.allow(t, 0, "key")
		}
		o.Return()
		begin := time.Now()
		for o.allow(t, 0, "key").Source != ration.SourceRedis {
			require.Less(t, time.Since(begin), 3*time.Second)
			time.Sleep(10 * time.Millisecond)
		}
		require.Zero(t, ration.Owing(o.clients[0]))
	})
}

// A debt is not lost to a Redis that first refuses and then hangs.
func TestDebtsOutliveAFaultThatBecomesAHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 100, Window: time.Hour}, 1)
		o.allow(t, 0, "key")
		o.Fault()
		for range 20 {
			o.allow(t, 0, "key")
		}
		o.Hang()
		for range 20 {
			o.allow(t, 0, "key")
			time.Sleep(100 * time.Millisecond)
		}
		o.Return()
		time.Sleep(3 * time.Second)
		require.Zero(t, ration.Owing(o.clients[0]))
		d := o.allow(t, 0, "key")
		require.Equal(t, ration.SourceRedis, d.Source)
		require.EqualValues(t, 100-42, d.Remaining)
	})
}

// A bucket whose plan changes all the time goes on earning.
func TestBucketsThatAlternateEarnInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plans := []ration.Plan{
			ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 5}, ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 6},
		}
		o := newOutage(t, plans[0], 1)
		o.Refuse()
		admitted := 0
		for i := range 6000 {
			d, err := o.limiters[0].Take(t.Context(), ration.Request{Key: "key", Cost: 1, Plan: plans[i%2]})
			require.NoError(t, err)
			if d.Allowed {
				admitted++
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.InDelta(t, 605, admitted, 5)
	})
}

// After Close all is ErrClosed, whatever the breaker says.
func TestClosedInAnOutage(t *testing.T) {
	t.Parallel()
	for _, policy := range []ration.FailurePolicy{ration.FailLocal(), ration.FailOpen(), ration.FailClosed()} {
		synctest.Test(t, func(t *testing.T) {
			o := newOutage(t, ration.FixedWindow{Limit: 100, Window: time.Hour}, 1, ration.OnFailure(policy))
			o.Refuse()
			for range 10 {
				o.allow(t, 0, "key")
			}
			o.clients[0].Close()
			_, err := o.limiters[0].Allow(t.Context(), "key")
			require.ErrorIs(t, err, ration.ErrClosed)
			require.ErrorIs(t, o.limiters[0].Reset(t.Context(), "key"), ration.ErrClosed)
		})
	}
}
