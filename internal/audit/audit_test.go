package audit_test

import (
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
	got, err := audit.Excess(bucket, late)
	require.NoError(t, err)
	require.Zero(t, got)
	late[1].After--
	got, err = audit.Excess(bucket, late)
	require.NoError(t, err)
	require.EqualValues(t, 1, got)
}

func TestBound(t *testing.T) {
	t.Parallel()
	got, err := audit.Bound(ration.TokenBucket{Rate: ration.PerSecond(10), Burst: 5}, 3050*time.Millisecond)
	require.NoError(t, err)
	require.EqualValues(t, 35, got)
	got, err = audit.Bound(ration.FixedWindow{Limit: 5, Window: time.Second}, 3050*time.Millisecond)
	require.NoError(t, err)
	require.EqualValues(t, 20, got)
}
