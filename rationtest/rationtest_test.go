package rationtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

func TestAdvance(t *testing.T) {
	t.Parallel()
	for _, plan := range []ration.Plan{
		ration.TokenBucket{Rate: ration.Every(time.Minute), Burst: 1},
		ration.FixedWindow{Limit: 1, Window: time.Minute},
		ration.FixedWindow{Limit: 1, Window: time.Minute, Aligned: true},
	} {
		t.Run(plan.String(), func(t *testing.T) {
			t.Parallel()
			server := rationtest.New(t)
			limiter, err := server.Client.Limiter("search", plan)
			require.NoError(t, err)
			allow := func() ration.Decision {
				t.Helper()
				d, err := limiter.Allow(t.Context(), "tenant:42")
				require.NoError(t, err)
				return d
			}
			begin := server.Now()

			require.True(t, allow().Allowed)
			denied := allow()
			require.False(t, denied.Allowed)
			require.Equal(t, time.Minute, denied.RetryAfter)

			server.Advance(time.Minute - time.Millisecond)
			require.False(t, allow().Allowed)
			server.Advance(time.Millisecond)
			require.True(t, allow().Allowed)
			require.Equal(t, begin.Add(time.Minute), server.Now())
		})
	}
}

// fatalRecorder notes a Fatalf instead of failing.
type fatalRecorder struct {
	testing.TB
	fatal bool
}

func (r *fatalRecorder) Fatalf(string, ...any) { r.fatal = true }

func TestAdvanceBackwards(t *testing.T) {
	t.Parallel()
	failed := &fatalRecorder{TB: t}
	server := rationtest.New(failed)
	server.Advance(-1)
	require.True(t, failed.fatal)
}

func TestSecondClientSharesTheQuota(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	other, err := ration.New(server.NewRedis(t), ration.WithTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(other.Close)
	for i, client := range []*ration.Client{server.Client, other, server.Client} {
		limiter, err := client.Limiter("search", ration.FixedWindow{Limit: 2, Window: time.Minute})
		require.NoError(t, err)
		d, err := limiter.Allow(t.Context(), "tenant:42")
		require.NoError(t, err)
		require.Equal(t, i < 2, d.Allowed, "request %d", i)
	}
}
