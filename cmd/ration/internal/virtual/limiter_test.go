package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/virtual"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAllowAt(t *testing.T) {
	t.Parallel()
	limiter, err := virtual.New(ration.FixedWindow{Limit: 3, Window: time.Minute})
	require.NoError(t, err)
	t.Cleanup(limiter.Close)
	day := time.Date(2001, time.February, 3, 0, 0, 0, 0, time.UTC)
	allow := func(after time.Duration, cost int64) bool {
		t.Helper()
		allowed, err := limiter.AllowAt(t.Context(), day.Add(after), "key", cost)
		require.NoError(t, err)
		return allowed
	}
	require.True(t, allow(0, 2))
	require.False(t, allow(0, 2))
	require.True(t, allow(30*time.Second, 1))
	require.False(t, allow(time.Minute-time.Millisecond, 1))
	require.True(t, allow(time.Minute, 3))
	require.False(t, allow(time.Minute, 1))

	limiter.Forget()
	require.True(t, allow(0, 3), "an earlier time")

	_, err = limiter.AllowAt(t.Context(), day, "key", 4)
	require.ErrorIs(t, err, ration.ErrCostExceedsLimit)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = limiter.AllowAt(ctx, day, "key", 1)
	require.ErrorIs(t, err, context.Canceled)
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := virtual.New(ration.FixedWindow{})
	require.ErrorIs(t, err, ration.ErrInvalidPlan)
}
