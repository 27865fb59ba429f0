package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// counter allows all and notes how often it was asked for each key.
type counter struct {
	mu    sync.Mutex
	asked map[string]int
}

func (c *counter) limiter() limiter {
	c.asked = make(map[string]int)
	return limiter{allow: func(_ context.Context, key string) (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked[key]++
		return true, nil
	}}
}

func TestAskTimes(t *testing.T) {
	t.Parallel()
	for _, callers := range []int{1, 3, 16} {
		for _, n := range []int{0, 1, 7, 100} {
			var c counter
			got, err := askTimes(t.Context(), c.limiter(), []string{"a", "b"}, callers, n)
			require.NoError(t, err)
			require.Equal(t, tally{allowed: int64(n)}, got, "%d callers", callers)
			require.Equal(t, n, c.asked["a"]+c.asked["b"])
		}
	}
}

func TestAskEach(t *testing.T) {
	t.Parallel()
	keys := newKeySource().take(1000)
	var c counter
	require.NoError(t, askEach(t.Context(), c.limiter(), keys))
	require.Len(t, c.asked, len(keys))
	for _, key := range keys {
		require.Equal(t, 1, c.asked[key])
	}
}

func TestAskForAsksEachCaller(t *testing.T) {
	t.Parallel()
	var c counter
	got, _, err := askFor(t.Context(), c.limiter(), []string{"a"}, 5, time.Nanosecond)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.allowed, int64(5))
}

// One error ends all callers, also those that would go on for ever.
func TestAskEndsWithAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	l := limiter{allow: func(ctx context.Context, key string) (bool, error) {
		if key == "bad" {
			return false, broken
		}
		<-ctx.Done()
		return false, ctx.Err()
	}}
	_, err := ask(t.Context(), l, 3, func(caller, _ int) (string, bool) {
		return []string{"good", "bad", "good"}[caller], true
	})
	require.ErrorIs(t, err, broken)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		work    work
		tally   tally
		elapsed time.Duration
		wrong   string
	}{
		{hotAllowed, tally{allowed: 1000}, time.Second, ""},
		{hotAllowed, tally{allowed: 999, denied: 1}, time.Second, "1 of 1000 requests were denied"},
		{hotDenied, tally{allowed: 22, denied: 1000}, time.Second, ""},
		{hotDenied, tally{allowed: 23, denied: 1000}, time.Second, "23 of 1023 requests were allowed, and 22 at most"},
		{manyAllowed, tally{denied: 1}, time.Second, "denied"},
	} {
		err := c.work.check(c.tally, c.elapsed)
		if c.wrong == "" {
			require.NoError(t, err, c.work.title)
		} else {
			require.ErrorContains(t, err, c.wrong, c.work.title)
		}
	}
}
