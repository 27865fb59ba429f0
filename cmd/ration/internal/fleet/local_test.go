package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

func TestLocalLimiter(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_040, 0)
	type step struct {
		millis int64
		want   bool
	}
	for _, c := range []struct {
		plan  ration.Plan
		steps []step
	}{
		{ration.TokenBucket{Rate: ration.PerSecond(10), Burst: 2}, []step{
			{0, true}, {0, true}, {0, false}, {99, false}, {101, true}, {101, false}, {5000, true}, {5000, true}, {5000, false},
		}},
		{ration.FixedWindow{Limit: 2, Window: time.Second}, []step{
			{300, true}, {900, true}, {1000, false}, {1299, false}, {1300, true}, {1300, true}, {1300, false},
		}},
		{ration.FixedWindow{Limit: 2, Window: time.Second, Aligned: true}, []step{
			{300, true}, {900, true}, {999, false}, {1000, true}, {1300, true}, {1999, false}, {2000, true},
		}},
		{ration.FixedWindow{Limit: 1, Window: time.Second, RestartOnDeny: true}, []step{
			{0, true}, {900, false}, {1100, false}, {2099, false}, {3099, true},
		}},
		// Of the 4 of the window before, 4, 3, 2½ and 2 still count at 1000, 1250, 1375 and 1500 ms.
		{ration.SlidingWindow{Limit: 4, Window: time.Second}, []step{
			{800, true},
			{900, true},
			{900, true},
			{999, true},
			{999, false},
			{1000, false},
			{1249, false},
			{1250, true},
			{1375, false},
			{1499, false},
			{1500, true},
			{1501, false},
			{4000, true},
			{4000, true},
			{4000, true},
			{4000, true},
			{4000, false},
		}},
		{ration.SlidingLog{Limit: 2, Window: time.Second}, []step{
			{300, true},
			{900, true},
			{1000, false},
			{1299, false},
			{1300, true},
			{1899, false},
			{1900, true},
			{2299, false},
			{9000, true},
			{9000, true},
			{9000, false},
		}},
		{ration.GCRA{Rate: ration.PerSecond(10), Burst: 2}, []step{
			{0, true}, {0, true}, {0, false}, {99, false}, {101, true}, {101, false}, {5000, true}, {5000, true}, {5000, false},
		}},
	} {
		t.Run(c.plan.String(), func(t *testing.T) {
			t.Parallel()
			limiter := newLocalLimiter(c.plan)
			for n, s := range c.steps {
				got := limiter.allow(start.Add(time.Duration(s.millis) * time.Millisecond))
				require.Equal(t, s.want, got, "step %d, at %d ms", n, s.millis)
			}
		})
	}
}

func TestRateOf(t *testing.T) {
	t.Parallel()
	for plan, want := range map[ration.Plan]float64{
		ration.TokenBucket{Rate: ration.PerMinute(30), Burst: 5}:       0.5,
		ration.GCRA{Rate: ration.PerMinute(30), Burst: 5}:              0.5,
		ration.FixedWindow{Limit: 5, Window: 100 * time.Millisecond}:   50,
		ration.SlidingWindow{Limit: 5, Window: 100 * time.Millisecond}: 50,
		ration.SlidingLog{Limit: 5, Window: 100 * time.Millisecond}:    50,
	} {
		got, err := RateOf(plan)
		require.NoError(t, err)
		require.InDelta(t, want, got, 1e-9)
	}
	_, err := RateOf(nil)
	require.Error(t, err)
}
