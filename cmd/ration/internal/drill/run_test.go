package drill

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/breakage"
)

// made is a run of two instances in which Redis was stopped from second 2 to 6, made up of decisions, each of both instances: every
// 5 ms, of which one in four is admitted, so that a fleet that is offered 400/s is let through 100/s.
func made(change func(*Decision)) Run {
	r := Run{
		Plan:      ration.TokenBucket{Rate: ration.PerSecond(100), Burst: 20},
		Rate:      100,
		Instances: 2,
		Timeout:   10 * time.Millisecond,
		Latency:   200 * time.Millisecond,
		Policy:    Local,
		Started:   time.Unix(1_800_000_000, 0),
		Phases: []Phase{
			{breakage.Healthy, 0, 2 * time.Second},
			{breakage.Stopped, 2 * time.Second, 6 * time.Second},
			{breakage.Healthy, 6 * time.Second, 9 * time.Second},
		},
	}
	for n := range 3600 {
		at := time.Duration(n/2) * 5 * time.Millisecond
		d := Decision{At: at, Took: time.Millisecond, Instance: n % 2, ByRedis: at < 2*time.Second || at >= 7*time.Second, Admitted: n%4 == 0}
		if change != nil {
			change(&d)
		}
		r.Samples = append(r.Samples, d)
	}
	return r
}

func TestTally(t *testing.T) {
	t.Parallel()
	r := made(nil)
	require.Equal(t, Tally{
		Offered: 400, Admitted: 100, ByRedis: 400,
		P50: time.Millisecond, P99: time.Millisecond, Max: time.Millisecond,
	}, r.Tally(time.Second, 2*time.Second))
	require.Equal(t, Tally{
		Offered: 800, Admitted: 200, ByRedis: 400, ByPolicy: 400,
		P50: time.Millisecond, P99: time.Millisecond, Max: time.Millisecond,
	}, r.Tally(6*time.Second, 8*time.Second))
	require.Zero(t, r.Tally(20*time.Second, 30*time.Second))
	require.Zero(t, Run{}.Tally(0, time.Second))
	require.Equal(t, 9*time.Second, r.End())
	require.Zero(t, Run{}.End())
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	var took []time.Duration
	for n := range 100 {
		took = append(took, time.Duration(n+1))
	}
	require.EqualValues(t, 50, quantile(took, 50))
	require.EqualValues(t, 99, quantile(took, 99))
	require.EqualValues(t, 7, quantile([]time.Duration{7}, 50))
	require.EqualValues(t, 7, quantile([]time.Duration{6, 7}, 99))
}

func TestExcess(t *testing.T) {
	t.Parallel()
	r := made(nil)
	require.Zero(t, r.Excess(r.End()))
	all := made(func(d *Decision) { d.Admitted = true })
	require.EqualValues(t, 400-120, all.Excess(time.Second))
	require.EqualValues(t, 3600-920, all.Excess(all.End()))
}

func TestStateIn(t *testing.T) {
	t.Parallel()
	r := made(nil)
	require.Equal(t, breakage.Healthy, r.StateIn(time.Second, 2*time.Second))
	require.Equal(t, breakage.Stopped, r.StateIn(1900*time.Millisecond, 2900*time.Millisecond))
	require.Equal(t, breakage.Healthy, r.StateIn(5900*time.Millisecond, 6900*time.Millisecond))
}
