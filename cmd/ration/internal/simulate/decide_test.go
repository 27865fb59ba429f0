package simulate_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/simulate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = time.Millisecond

func decide(t *testing.T, trace simulate.Trace, plan ration.Plan) simulate.Outcome {
	t.Helper()
	decided := 0
	outcome, err := trace.Decide(t.Context(), plan, func() { decided++ })
	require.NoError(t, err)
	require.Equal(t, len(trace), decided)
	require.Equal(t, plan.String(), outcome.Plan)
	return outcome
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		plan  ration.Plan
		trace simulate.Trace
		want  simulate.Outcome
	}{
		{
			"second 0 is a whole minute",
			ration.FixedWindow{Limit: 1, Window: time.Minute, Aligned: true},
			simulate.Trace{{59_999 * ms, 1}, {60_000 * ms, 1}, {60_001 * ms, 1}},
			simulate.Outcome{
				Allowed: []bool{true, true, false}, Admitted: 2, Denied: 1, Peak100ms: 2, Peak1s: 2,
				ByInstant: []simulate.Instant{{59_999 * ms, 1, 1}, {60_000 * ms, 1, 1}, {60_001 * ms, 1, 0}},
			},
		},
		{
			"and a whole day",
			ration.FixedWindow{Limit: 1, Window: 24 * time.Hour, Aligned: true},
			simulate.Trace{{0, 1}, {24*time.Hour - ms, 1}, {24 * time.Hour, 1}},
			simulate.Outcome{
				Allowed: []bool{true, false, true}, Admitted: 2, Denied: 1, Peak100ms: 1, Peak1s: 1,
				ByInstant: []simulate.Instant{{0, 1, 1}, {24*time.Hour - ms, 1, 0}, {24 * time.Hour, 1, 1}},
			},
		},
		{
			"figures are units, and what can never pass is denied",
			ration.TokenBucket{Rate: ration.PerSecond(10), Burst: 5},
			simulate.Trace{{0, 3}, {0, 3}, {0, 2}, {100 * ms, 6}, {100 * ms, 0}, {100 * ms, 1}},
			simulate.Outcome{
				Allowed: []bool{true, false, true, false, true, true}, Admitted: 6, Denied: 9, Peak100ms: 5, Peak1s: 6,
				ByInstant: []simulate.Instant{{0, 8, 5}, {100 * ms, 7, 1}},
			},
		},
		{
			"microseconds, as late as can be",
			ration.TokenBucket{Rate: ration.Every(time.Second), Burst: 1},
			simulate.Trace{{0, 1}, {1_999_999_999 * time.Second, 1}, {2_000_000_000*time.Second - time.Microsecond, 1}, {2_000_000_000 * time.Second, 1}},
			simulate.Outcome{
				Allowed: []bool{true, true, false, true}, Admitted: 3, Denied: 1, Peak100ms: 1, Peak1s: 1,
				ByInstant: []simulate.Instant{
					{0, 1, 1}, {1_999_999_999 * time.Second, 1, 1}, {2_000_000_000*time.Second - time.Microsecond, 1, 0}, {2_000_000_000 * time.Second, 1, 1},
				},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.Plan = c.plan.String()
			require.Equal(t, c.want, decide(t, c.trace, c.plan))
		})
	}
}

// A peak is the greatest of the sums over all spans that begin with an arrival.
func TestPeaks(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		var trace simulate.Trace
		var at time.Duration
		for range 60 {
			at += time.Duration(random.IntN(4)) * 50 * ms
			trace = append(trace, simulate.Arrival{At: at, Cost: random.Int64N(4)})
		}
		got := decide(t, trace, ration.TokenBucket{Rate: ration.PerSecond(10), Burst: 6})
		oracle := func(span time.Duration) (most int64) {
			for _, first := range trace {
				var units int64
				for i, a := range trace {
					if got.Allowed[i] && first.At <= a.At && a.At < first.At+span {
						units += a.Cost
					}
				}
				most = max(most, units)
			}
			return most
		}
		require.Equal(t, oracle(100*ms), got.Peak100ms, "%v", trace)
		require.Equal(t, oracle(time.Second), got.Peak1s, "%v", trace)
	}
}

func TestByInstant(t *testing.T) {
	t.Parallel()
	trace := make(simulate.Trace, 0, 22)
	for n := range simulate.MaxInstants {
		at := time.Duration(n) * time.Microsecond
		trace = append(trace, simulate.Arrival{At: at, Cost: 2}, simulate.Arrival{At: at, Cost: 1})
	}
	plan := ration.FixedWindow{Limit: 1000, Window: time.Minute}
	got := decide(t, trace, plan)
	require.Len(t, got.ByInstant, simulate.MaxInstants)
	for n, i := range got.ByInstant {
		require.Equal(t, simulate.Instant{At: time.Duration(n) * time.Microsecond, Arrived: 3, Admitted: 3}, i)
	}
	trace = append(trace, simulate.Arrival{At: time.Second, Cost: 1})
	require.Nil(t, decide(t, trace, plan).ByInstant)
}

func TestDecideInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	decided := 0
	trace := simulate.Trace{{0, 1}, {0, 1}, {0, 1}}
	_, err := trace.Decide(ctx, ration.FixedWindow{Limit: 1, Window: time.Second}, func() {
		decided++
		cancel()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, decided)
}
