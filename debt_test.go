package ration_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// A payment that found no connection in time was not made, and is made later.
func TestPaymentThatWasNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, hourly, 1)
		o.allow(t, 0, "key")
		o.Refuse()
		require.Equal(t, 10, o.admits(t, 10))
		o.StarvePayments()
		o.Return()
		time.Sleep(5 * time.Second)
		require.Zero(t, ration.Owing(o.clients[0]))
		require.EqualValues(t, 10, o.clients[0].Stats().PaidUnits)
		require.EqualValues(t, 1_000_000-12, o.allow(t, 0, "key").Remaining)
	})
}

// What is granted while a payment is on its way is owed beside it, however much that is.
func TestGrantsDuringAPayment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const burst = 100
		o := newOutage(t, ration.TokenBucket{Rate: ration.PerMinute(burst), Burst: burst}, 1)
		o.Refuse()
		require.Equal(t, burst, o.admits(t, burst))
		o.LosePayments()
		o.Return()
		time.Sleep(time.Second) // the payment is on its way
		o.Refuse()
		time.Sleep(30 * time.Second)
		granted := o.admits(t, burst)
		require.InDelta(t, burst/2, granted, 3)
		require.EqualValues(t, burst+granted, ration.OwedUnits(o.clients[0]))
		o.Return()
		time.Sleep(11 * time.Minute) // the payment ends
		require.Zero(t, ration.OwedUnits(o.clients[0]))
	})
}

// admits is how many of some requests for a unit of one key are allowed.
func (o *outage) admits(t *testing.T, requests int) (admitted int) {
	t.Helper()
	for range requests {
		if o.allow(t, 0, "key").Allowed {
			admitted++
		}
	}
	return admitted
}

// A refund of what was granted here takes back no more than still weighs: not what the key owes for later grants.
func TestRefundOfOldGrantsInAnOutage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		plan  ration.Plan
		pause time.Duration // after which nothing of a grant of 10 units weighs
	}{
		{ration.FixedWindow{Limit: 10, Window: 4 * time.Second}, 4 * time.Second},
		{ration.FixedWindow{Limit: 10, Window: 4 * time.Second, Aligned: true}, 4 * time.Second},
		{ration.SlidingWindow{Limit: 10, Window: 4 * time.Second}, 8 * time.Second},
		{ration.SlidingLog{Limit: 10, Window: 4 * time.Second}, 5 * time.Second},
		{ration.TokenBucket{Rate: ration.PerSecond(5), Burst: 10}, 2 * time.Second},
		{ration.GCRA{Rate: ration.PerSecond(5), Burst: 10}, 2 * time.Second},
	} {
		t.Run(c.plan.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(t, c.plan, 1)
				o.Refuse()
				take := func() (d ration.Decision) {
					d, err := o.limiters[0].AllowN(t.Context(), "key", 10)
					require.NoError(t, err)
					require.True(t, d.Allowed)
					return d
				}
				old := take()
				time.Sleep(c.pause)
				late := take()
				require.NoError(t, o.limiters[0].Refund(t.Context(), old))
				require.EqualValues(t, 10, ration.OwedUnits(o.clients[0]))
				require.NoError(t, o.limiters[0].Refund(t.Context(), late))
				require.Zero(t, ration.OwedUnits(o.clients[0]))
			})
		})
	}
}

// Requests under several plans, of more keys than are counted, owe nothing that is not paid in the end.
func TestDebtsOfSeveralPlansAndManyKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := ration.FixedWindow{Limit: 10, Window: time.Minute}
		o := newOutage(t, plan, 1, ration.WithLocalKeys(3))
		limiter, err := o.clients[0].Limiter("several", ration.MultiPlan{
			{Name: "a", Plan: plan}, {Name: "b", Plan: ration.FixedWindow{Limit: 10, Window: time.Hour}},
		})
		require.NoError(t, err)
		o.Refuse()
		for i := range 2000 {
			_, err := limiter.Allow(t.Context(), fmt.Sprint("key ", i))
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		require.LessOrEqual(t, ration.Owing(o.clients[0]), 3)
		o.Return()
		time.Sleep(2 * time.Hour)
		require.Zero(t, ration.Owing(o.clients[0]))
		require.Zero(t, ration.LocalKeys(o.clients[0]))
	})
}

// B87: keys that are counted here are forgotten when they are as good as new, though nobody asks for any.
func TestIdleKeysAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 3, Window: 10 * time.Second}, 1)
		o.Refuse()
		for i := range 10_000 {
			o.allow(t, 0, fmt.Sprint("key ", i))
		}
		require.Equal(t, 10_000, ration.LocalKeys(o.clients[0]))
		time.Sleep(20 * time.Second)
		require.Zero(t, ration.LocalKeys(o.clients[0]))
	})
}

type exiting struct{ recorder }

func (e *exiting) ObserveBreaker(ration.ObservedBreaker) { runtime.Goexit() }

// An observer of breakers that ends its goroutine ends nobody's: debts are paid, and the process is still counted.
func TestGoexitInAnObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, hourly, 1, ration.WithObserver(&exiting{}))
		for range 5 {
			o.Refuse()
			for range 10 {
				o.allow(t, 0, "key")
			}
			o.Return()
			time.Sleep(3 * time.Second)
			require.Zero(t, ration.Owing(o.clients[0]))
		}
		beats := o.Runs("beat")
		time.Sleep(10 * time.Second)
		require.Greater(t, o.Runs("beat"), beats)
	})
}

// Of panics that no line shows, one tells how many they were.
func TestPanicsThatAreNotShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, logger := newLog()
		o := newOutage(t, hourly, 1, ration.WithObserver(panicking{}), ration.WithLogger(logger))
		for range 100 {
			o.allow(t, 0, "key")
		}
		time.Sleep(time.Minute)
		require.Len(t, log.lines("ration: an observer panicked"), 5)
		more := log.lines("ration: an observer panicked, more")
		require.Len(t, more, 1)
		require.Equal(t, slog.LevelError, more[0].level)
		require.Equal(t, map[string]any{"not_shown": int64(95)}, more[0].attrs)
	})
}
