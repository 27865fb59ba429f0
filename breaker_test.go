package ration_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// B73: while Redis hangs, the first calls wait for it, and then one a second.
func TestBreakerOfB73(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 1_000_000, Window: time.Hour}, 1, ration.WithTimeout(20*time.Millisecond),
			ration.WithBreaker(ration.Breaker{Probe: time.Second}), ration.OnFailure(ration.FailOpen()))
		require.Equal(t, ration.SourceRedis, o.allow(t, 0, "key").Source)
		o.Hang()
		slow := 0
		begin := time.Now()
		for i := range 1000 {
			start := time.Now()
			d := o.allow(t, 0, "key")
			require.Equal(t, ration.SourceFailOpen, d.Source)
			switch took := time.Since(start); {
			case took == 20*time.Millisecond:
				slow++
				require.ErrorIs(t, d.Cause, ration.ErrTimeout)
			default:
				require.Zero(t, took)
				require.ErrorIs(t, d.Cause, ration.ErrBreakerOpen)
				require.Regexp(t, "no answer within 20ms|i/o timeout", d.Cause.Error(), "it says why")
			}
			if i == 500 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		require.Equal(t, 5, slow)
		require.Equal(t, 110*time.Millisecond, time.Since(begin))

		// A probe from time to time, by one caller.
		slow = 0
		for range 10_000 {
			start := time.Now()
			o.allow(t, 0, "key")
			if time.Since(start) > 0 {
				slow++
			}
			time.Sleep(time.Millisecond)
		}
		require.InDelta(t, 9, slow, 1, "probes in ten seconds: one in 1 to 1.25 s")

		o.Return()
		time.Sleep(1250 * time.Millisecond)
		require.Equal(t, ration.SourceRedis, o.allow(t, 0, "key").Source)
		require.Equal(t, ration.SourceRedis, o.allow(t, 0, "key").Source)
	})
}

// Half of the calls without an answer open it too, if they are twenty.
func TestBreakerGoesByShare(t *testing.T) {
	t.Parallel()
	for share, opens := range map[float64]bool{0: true, 0.6: false, 1: false} {
		synctest.Test(t, func(t *testing.T) {
			o := newOutage(t, ration.FixedWindow{Limit: 1_000_000, Window: time.Hour}, 1,
				ration.WithBreaker(ration.Breaker{Share: share}), ration.OnFailure(ration.FailOpen()))
			opened := 0
			for i := range 100 {
				if i%2 == 0 {
					o.Return()
				} else {
					o.Refuse()
				}
				d := o.allow(t, 0, "key")
				if opened == 0 && d.Cause != nil && isBreakerOpen(d.Cause) {
					opened = i
				}
			}
			if opens {
				require.Equal(t, 20, opened)
			} else {
				require.Zero(t, opened)
			}
		})
	}
}

func TestBreakerRefused(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	for _, b := range []ration.Breaker{
		{Failures: -1}, {Share: -0.1}, {Share: 1.1}, {Share: math.NaN()}, {Probe: -1}, {Probe: time.Microsecond},
	} {
		_, err := ration.New(rdb, ration.WithBreaker(b))
		require.ErrorIs(t, err, ration.ErrInvalidOption, "%+v", b)
	}
}
