package fleet

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	t.Parallel()
	server := embedded.New()
	t.Cleanup(server.Close)
	f, err := New(Config{
		Instances: 3,
		Plan:      ration.FixedWindow{Limit: 4, Window: time.Hour},
		Load:      36_000, // 40 in a second
		Duration:  250 * time.Millisecond,
		Timeout:   time.Minute,
		Key:       "tenant:42",
		NewRedis:  func() redis.UniversalClient { return server.NewClient() },
	})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	require.EqualValues(t, 10, f.Offers())
	require.InDelta(t, 4./3600, f.Rate(), 1e-9)
	require.Regexp(t, `^\{[A-Z2-7]+\}:tenant:42$`, f.key)

	got, err := f.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, f.Now(), got.Instances)
	require.Len(t, got.Instances, 3)
	require.EqualValues(t, 10, got.All.Offered+got.Late)
	require.Equal(t, min(got.All.Offered, 4), got.All.Admitted)
	require.Equal(t, got.All.Offered, got.All.Admitted+got.All.Denied)
	require.Equal(t, got.All.Offered, got.All.AloneAdmitted+got.All.AloneDenied)
	require.EqualValues(t, 4, got.Limit)
	require.Zero(t, got.Excess)
	require.Zero(t, got.Untimed)
	require.Equal(t, max(got.All.AloneAdmitted-4, 0), got.AloneExcess())
	require.Positive(t, got.P50)
	require.LessOrEqual(t, got.P50, got.P99)
	require.NoError(t, got.Leftover)
	for n, most := range []int64{4, 3, 3} {
		require.LessOrEqual(t, got.Instances[n].Offered, most)
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	millis := func(n int64) int64 { return 1_700_000_040_000_000 + n*1000 }
	for _, c := range []struct {
		name        string
		plan        ration.Plan
		from, until int64
		want        int64
	}{
		{"bucket", ration.TokenBucket{Rate: ration.PerSecond(10), Burst: 5}, millis(0), millis(999), 14},
		{"bucket, no time", ration.TokenBucket{Rate: ration.PerSecond(10), Burst: 5}, millis(0), millis(0), 5},
		{"window", ration.FixedWindow{Limit: 5, Window: time.Second}, millis(300), millis(1298), 5},
		{"window, one to the end", ration.FixedWindow{Limit: 5, Window: time.Second}, millis(300), millis(1300), 10},
		{"window, a shorter one", ration.FixedWindow{Limit: 5, Window: time.Second}, millis(300), millis(1300) - 999, 10},
		{"window, the shortest", ration.FixedWindow{Limit: 5, Window: time.Millisecond}, millis(0), millis(1), 5005},
		{"grid", ration.FixedWindow{Limit: 5, Window: time.Second, Aligned: true}, millis(300), millis(999), 5},
		{"grid, across a boundary", ration.FixedWindow{Limit: 5, Window: time.Second, Aligned: true}, millis(999), millis(1000), 10},
		{"sliding window", ration.SlidingWindow{Limit: 5, Window: time.Second}, millis(300), millis(999), 5},
		{"sliding window, at a boundary", ration.SlidingWindow{Limit: 5, Window: time.Second}, millis(999), millis(1000), 5},
		{"sliding window, across a boundary", ration.SlidingWindow{Limit: 5, Window: time.Second}, millis(999), millis(1400), 7},
		{"log", ration.SlidingLog{Limit: 5, Window: time.Second}, millis(300), millis(1300) - 1, 5},
		{"log, one out", ration.SlidingLog{Limit: 5, Window: time.Second}, millis(300), millis(1300), 10},
		{"cells", ration.GCRA{Rate: ration.PerSecond(10), Burst: 5}, millis(0), millis(999), 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Limit(c.plan, c.from, c.until)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}
