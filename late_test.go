package ration_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

func isBreakerOpen(err error) bool { return errors.Is(err, ration.ErrBreakerOpen) }

var neverOpen = ration.WithBreaker(ration.Breaker{Failures: 1_000_000, Share: 1})

// What Redis granted to callers that were denied meanwhile is given back when the answer comes.
func TestLateGrantsAreGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 1000
		o := newOutage(t, ration.FixedWindow{Limit: 2 * calls, Window: time.Hour}, 1, neverOpen, ration.OnFailure(ration.FailClosed()))
		o.Delay(50 * time.Millisecond)
		var all sync.WaitGroup
		for range calls {
			time.Sleep(6 * time.Millisecond) // else it would wait for the others, and not be sent
			all.Go(func() {
				d, err := o.limiters[0].Allow(context.Background(), "key")
				require.NoError(t, err)
				require.False(t, d.Allowed)
				require.ErrorIs(t, d.Cause, ration.ErrTimeout)
			})
		}
		all.Wait()
		o.Delay(0)
		time.Sleep(time.Second)
		require.Equal(t, calls, o.Runs("take"), "each is sent once")
		require.Equal(t, calls, o.Runs("refund"))
		d, err := o.limiters[0].Peek(t.Context(), "key")
		require.NoError(t, err)
		require.EqualValues(t, 2*calls, d.Remaining, "the quota is whole")
	})
}

// Nor is a caller charged that has left.
func TestLateGrantOfACallerThatLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 5, Window: time.Hour}, 1)
		o.Delay(5 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := o.limiters[0].Allow(ctx, "key")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		d, err := o.limiters[0].Peek(t.Context(), "key")
		require.NoError(t, err)
		require.EqualValues(t, 5, d.Remaining)
	})
}

// A late grant to a caller that was admitted all the same is that caller's.
func TestLateGrantSettlesWhatWasGrantedMeanwhile(t *testing.T) {
	t.Parallel()
	for callers, policy := range map[int]ration.FailurePolicy{
		100: ration.FailLocal(),
		4:   ration.FailOpen(), // more would wait for those, and who is not sent is not charged
	} {
		synctest.Test(t, func(t *testing.T) {
			o := newOutage(t, ration.FixedWindow{Limit: 1000, Window: time.Hour}, 1, neverOpen, ration.OnFailure(policy))
			o.Delay(50 * time.Millisecond)
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					d, err := o.limiters[0].Allow(context.Background(), "key")
					require.NoError(t, err)
					require.True(t, d.Allowed)
					require.ErrorIs(t, d.Cause, ration.ErrTimeout)
				})
			}
			all.Wait()
			o.Delay(0)
			time.Sleep(time.Second)
			require.Zero(t, ration.Owing(o.clients[0]))
			d, err := o.limiters[0].Peek(t.Context(), "key")
			require.NoError(t, err)
			require.EqualValues(t, 1000-callers, d.Remaining, "each is charged once")
			if callers == 4 { // else a debt may have been paid before the late grant came, which then goes back
				require.Zero(t, o.Runs("refund"))
			}
		})
	}
}

// Of a late grant that is greater than what its caller was admitted with, the rest is given back.
func TestRestOfALateGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 10, Window: time.Hour}, 1, ration.WithFleetSize(2))
		o.Delay(300 * time.Millisecond)
		d, err := o.limiters[0].AllowUpTo(t.Context(), "key", 10)
		require.NoError(t, err)
		require.Equal(t, ration.SourceLocal, d.Source)
		require.EqualValues(t, 5, d.Granted)
		time.Sleep(400 * time.Millisecond)
		o.Delay(0)
		time.Sleep(2 * time.Second)
		require.Zero(t, ration.Owing(o.clients[0]))
		d, err = o.limiters[0].Peek(t.Context(), "key")
		require.NoError(t, err)
		require.EqualValues(t, 5, d.Remaining)
	})
}

// A late denial of what was granted meanwhile leaves that owed, and so does a late grant of a part of it, which goes back.
func TestLateDenialSettlesNothing(t *testing.T) {
	t.Parallel()
	for left, owed := range map[int64]int64{0: 5, 3: 5, 10: 0} {
		synctest.Test(t, func(t *testing.T) {
			o := newOutage(t, ration.FixedWindow{Limit: 10, Window: time.Hour}, 1)
			rdb := o.NewRedis()
			t.Cleanup(func() { _ = rdb.Close() })
			other, err := ration.New(rdb)
			require.NoError(t, err)
			t.Cleanup(other.Close)
			theirs, err := other.Limiter("search", ration.FixedWindow{Limit: 10, Window: time.Hour})
			require.NoError(t, err)
			_, err = theirs.AllowN(t.Context(), "key", 10-left)
			require.NoError(t, err)
			o.Delay(time.Second)
			d, err := o.limiters[0].AllowUpTo(t.Context(), "key", 5)
			require.NoError(t, err)
			require.Equal(t, ration.SourceLocal, d.Source)
			require.EqualValues(t, 5, d.Granted)
			time.Sleep(time.Second)
			require.Equal(t, owed, ration.OwedUnits(o.clients[0]), "with %d units left", left)
		})
	}
}

// A late grant to a caller whom the function of FailFunc gave less is his as far as he was given it, and else goes back.
func TestRestOfALateGrantUnderFailFunc(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		some := ration.FailFunc(func(context.Context, ration.Request, error) ration.Decision {
			return ration.Decision{Allowed: true, Granted: 3}
		})
		o := newOutage(t, ration.FixedWindow{Limit: 10, Window: time.Hour}, 1, neverOpen, ration.OnFailure(some))
		o.Delay(50 * time.Millisecond)
		d, err := o.limiters[0].AllowUpTo(t.Context(), "key", 8)
		require.NoError(t, err)
		require.EqualValues(t, 3, d.Granted)
		o.Delay(0)
		time.Sleep(time.Second)
		d, err = o.limiters[0].Peek(t.Context(), "key")
		require.NoError(t, err)
		require.EqualValues(t, 7, d.Remaining)
	})
}
