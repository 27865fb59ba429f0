package audit_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/audit"
)

// at makes admissions of one unit, each known to within a microsecond, at times in milliseconds.
func at(millis ...int64) []audit.Admission {
	admissions := make([]audit.Admission, len(millis))
	for i, ms := range millis {
		admissions[i] = audit.Admission{Before: ms*1000 + 7_000_000, After: ms*1000 + 7_000_001, Units: 1}
	}
	return admissions
}

func TestExcess(t *testing.T) {
	t.Parallel()
	bucket := ration.TokenBucket{Rate: ration.PerSecond(10), Burst: 2}
	window := ration.FixedWindow{Limit: 2, Window: time.Second}
	grid := ration.FixedWindow{Limit: 2, Window: time.Second, Aligned: true}
	restarting := ration.FixedWindow{Limit: 2, Window: time.Second, RestartOnDeny: true}
	log := ration.SlidingLog{Limit: 2, Window: time.Second}
	sliding := ration.SlidingWindow{Limit: 2, Window: time.Second}
	for _, c := range []struct {
		name       string
		plan       ration.Plan
		admissions []audit.Admission
		want       int64
	}{
		{"bucket: none", bucket, nil, 0},
		{"bucket: the burst", bucket, at(0, 0), 0},
		{"bucket: one too many at once", bucket, at(0, 0, 0), 1},
		{"bucket: the burst, then the rate", bucket, at(0, 0, 100, 200, 300), 0},
		{"bucket: one a millisecond early", bucket, at(0, 0, 99), 1},
		{"bucket: two bursts without the time between", bucket, at(0, 0, 1000, 1000, 1050, 1051), 2},
		{"window: the limit", window, at(0, 999), 0},
		{"window: one too many", window, at(0, 5, 998), 1},
		{"window: at its end and after", window, at(0, 998, 1002, 1003), 0},
		{"window: too many in the second", window, at(0, 500, 1002, 1003, 1004), 1},
		{"window: too many in a later one, with an idle span between", window, at(0, 5000, 5001, 5002), 1},
		{
			"window: a second that may have opened with one across the end of the first", window,
			append(at(0, 5, 1500, 2002, 2003), audit.Admission{Before: 7_990_000, After: 8_020_000, Units: 1}), 0,
		},
		{"grid: two limits around a boundary", grid, at(998, 999, 1000, 1001), 0},
		{"grid: one too many", grid, at(1000, 1500, 1999), 1},
		{"restarting: one too many in the first", restarting, at(0, 5, 998), 1},
		{"restarting: perhaps in the first still, perhaps in the second", restarting, at(0, 1900, 2000, 2001), 0},
		{"restarting: more than two windows can hold", restarting, at(0, 1900, 2000, 2001, 2002, 2003), 1},
		{"cells: the burst, then the rate", ration.GCRA(bucket), at(0, 0, 100, 200, 300), 0},
		{"cells: one a millisecond early", ration.GCRA(bucket), at(0, 0, 99), 1},
		{"log: none", log, nil, 0},
		{"log: as soon as the first is out", log, at(0, 500, 1000, 1500), 0},
		{"log: one a millisecond early", log, at(0, 500, 999, 1500), 1},
		{"log: two limits around a boundary", log, at(998, 999, 1000, 1001), 2},
		{"log: one too many in each of three windows", log, at(0, 0, 0, 1000, 1000, 1000, 2000, 2000, 2000), 3},
		{"sliding: none", sliding, nil, 0},
		{"sliding: the limit", sliding, at(0, 999), 0},
		{"sliding: one too many in a window", sliding, at(0, 500, 999), 1},
		{"sliding: two limits around a boundary", sliding, at(998, 999, 1000, 1001), 2},
		{"sliding: when of the first two only one is left", sliding, at(0, 999, 1500), 0},
		{"sliding: one a millisecond early", sliding, at(0, 999, 1499), 1},
		{"sliding: nothing is left of the last window but one", sliding, at(0, 999, 2000, 2999), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := audit.Excess(c.plan, c.admissions)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// An admission whose moment is not known well enough is not held against the plan.
func TestExcessIsCertain(t *testing.T) {
	t.Parallel()
	bucket := ration.TokenBucket{Rate: ration.PerSecond(10), Burst: 1}
	late := []audit.Admission{{Before: 0, After: 0, Units: 1}, {Before: 0, After: 100_000, Units: 1}}
	require.Zero(t, excess(t, bucket, late))
	late[1].After--
	require.EqualValues(t, 1, excess(t, bucket, late))

	log := ration.SlidingLog{Limit: 1, Window: 100 * time.Millisecond}
	late[1].After++
	require.Zero(t, excess(t, log, late))
	late[1].After--
	require.EqualValues(t, 1, excess(t, log, late))

	// If the second was granted in the first window, a fifth of it is left at the end; else all of it would be.
	sliding := ration.SlidingWindow{Limit: 9, Window: 100 * time.Millisecond}
	across := []audit.Admission{
		{Before: 0, After: 0, Units: 8}, {Before: 99_000, After: 180_000, Units: 1}, {Before: 180_000, After: 180_000, Units: 7},
	}
	require.Zero(t, excess(t, sliding, across))
	across[2].Units++
	require.EqualValues(t, 1, excess(t, sliding, across))
	// Nobody knows of which window: but in two windows and a half no more than 22 can be granted.
	anywhere := []audit.Admission{{Before: 0, After: 250_000, Units: 22}}
	require.Zero(t, excess(t, sliding, anywhere))
	anywhere[0].Units++
	require.EqualValues(t, 1, excess(t, sliding, anywhere))
}

func TestBound(t *testing.T) {
	t.Parallel()
	const greatest = 1 << 52
	for _, c := range []struct {
		plan ration.Plan
		span time.Duration
		want int64
	}{
		{ration.TokenBucket{Rate: ration.PerSecond(10), Burst: 5}, 3050 * time.Millisecond, 35},
		{ration.GCRA{Rate: ration.PerSecond(10), Burst: 5}, 3050 * time.Millisecond, 35},
		{ration.FixedWindow{Limit: 5, Window: time.Second}, 3050 * time.Millisecond, 20},
		{ration.SlidingLog{Limit: 5, Window: time.Second}, 0, 5},
		{ration.SlidingLog{Limit: 5, Window: time.Second}, time.Second - time.Microsecond, 5},
		{ration.SlidingLog{Limit: 5, Window: time.Second}, time.Second, 10},
		{ration.SlidingLog{Limit: 5, Window: time.Second}, 3050 * time.Millisecond, 20},
		{ration.SlidingWindow{Limit: 5, Window: time.Second}, 0, 5},
		{ration.SlidingWindow{Limit: 5, Window: time.Second}, time.Second, 5},
		{ration.SlidingWindow{Limit: 5, Window: time.Second}, 1200 * time.Millisecond, 6},
		{ration.SlidingWindow{Limit: 5, Window: time.Second}, 3050 * time.Millisecond, 15},
		{ration.SlidingWindow{Limit: greatest, Window: time.Millisecond}, time.Hour, math.MaxInt64},
		{ration.TokenBucket{Rate: ration.Rate{Units: 1_000_000_000_000, Per: 1}, Burst: greatest}, time.Hour, math.MaxInt64},
	} {
		got, err := audit.Bound(c.plan, c.span)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%v, %v", c.plan, c.span)
	}
}

func TestUnknownPlan(t *testing.T) {
	t.Parallel()
	_, err := audit.Bound(nil, 0)
	require.Error(t, err)
	_, err = audit.Excess(nil, nil)
	require.Error(t, err)
}
