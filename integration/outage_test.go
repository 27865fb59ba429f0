package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// A server that stands still is decided without, and charged with what was granted meanwhile when it goes on, to the unit: that of
// calls which it had received already, and that of calls which were not sent.
func TestLocalWhileServerHangs(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s := startServer(t, image)
		prefix := freshPrefix()
		plan := ration.FixedWindow{Limit: 100, Window: time.Hour}
		client := newClient(t, s.newRedis(t, nil), ration.WithPrefix(prefix), ration.WithTimeout(50*time.Millisecond),
			ration.OnFailure(ration.FailLocal()))
		limiter, err := client.Limiter("limiter", plan)
		require.NoError(t, err)
		other, err := newClient(t, s.newRedis(t, nil), ration.WithPrefix(prefix)).Limiter("limiter", plan)
		require.NoError(t, err)
		await(t, "a decision by the server", func(ctx context.Context) error {
			_, err := byRedis(limiter.AllowN(ctx, "tenant:42", 0))
			return err
		})
		granted := int64(0)
		allow := func() ration.Decision {
			d, err := limiter.Allow(t.Context(), "tenant:42")
			require.NoError(t, err)
			require.True(t, d.Allowed)
			granted++
			return d
		}
		for range 10 {
			allow()
		}
		unpause := s.box.pause(t)
		atOnce := 0
		for range 20 {
			d := allow()
			require.Equal(t, ration.SourceLocal, d.Source)
			require.ErrorIs(t, d.Cause, ration.ErrUnavailable)
			require.Equal(t, 100-granted, d.Remaining, "from what the server last said")
			if errors.Is(d.Cause, ration.ErrBreakerOpen) {
				atOnce++
			}
		}
		require.Positive(t, atOnce, "the breaker did not open")
		unpause()
		await(t, "the server to know what was granted", func(ctx context.Context) error {
			d, err := byRedis(other.Peek(ctx, "tenant:42"))
			if err == nil && d.Remaining != 100-granted {
				err = fmt.Errorf("it has %d units left, not %d", d.Remaining, 100-granted)
			}
			return err
		})
		await(t, "a decision by the server", func(ctx context.Context) error {
			_, err := byRedis(limiter.AllowN(ctx, "tenant:42", 0))
			return err
		})
		d := allow()
		require.Equal(t, 100-granted, d.Remaining)
	})
}

// B71: what FailOpen lets through while there is no server says so, and why; what remains is not made up.
func TestFailOpenLeavesATraceOfB71(t *testing.T) {
	t.Parallel()
	s := startServer(t, redis8)
	limiter, err := newClient(t, s.newRedis(t, nil)).Limiter("limiter", fivePerMinute, ration.OnFailure(ration.FailOpen()))
	require.NoError(t, err)
	requireAllowed(t, limiter, 4)
	s.box.stop(t)
	for range 10 {
		d, err := limiter.Allow(t.Context(), "tenant:42")
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.EqualValues(t, 1, d.Granted)
		require.Equal(t, ration.SourceFailOpen, d.Source)
		require.ErrorIs(t, d.Cause, ration.ErrUnavailable)
		require.Zero(t, d.Remaining)
		require.Zero(t, d.ResetAfter)
	}
}
