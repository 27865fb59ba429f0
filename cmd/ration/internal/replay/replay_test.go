package replay_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/accesslog"
	"github.com/go-ration/ration/cmd/ration/internal/replay"
	"github.com/go-ration/ration/rationtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is a line of a log, by its second of a day.
type request struct {
	host   string
	second int
}

var day = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

func read(t *testing.T, requests []request) *replay.Traffic {
	t.Helper()
	var log strings.Builder
	for _, r := range requests {
		at := day.Add(time.Duration(r.second) * time.Second)
		fmt.Fprintf(&log, "%s - - [%s] \"-\" 200 1\n", r.host, at.Format("02/Jan/2006:15:04:05 -0700"))
	}
	lines, err := accesslog.NewReader(strings.NewReader(log.String()))
	require.NoError(t, err)
	traffic, err := replay.Read(lines, replay.ByIP)
	require.NoError(t, err)
	return traffic
}

// Decide takes one key after the other. It comes to what one Redis would have decided that saw all requests in the order
// of their times.
func TestDecideIsAsInOrderOfTime(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	requests := make([]request, 300)
	for i := range requests {
		requests[i] = request{fmt.Sprintf("host-%d", random.IntN(5)), random.IntN(120)}
	}
	traffic := read(t, requests)
	slices.SortStableFunc(requests, func(a, b request) int { return a.second - b.second })

	for _, plan := range []ration.Plan{
		ration.TokenBucket{Rate: ration.Every(3 * time.Second), Burst: 4},
		ration.FixedWindow{Limit: 7, Window: 25 * time.Second},
		ration.FixedWindow{Limit: 7, Window: 25 * time.Second, Aligned: true},
		ration.FixedWindow{Limit: 2, Window: 2 * time.Second, RestartOnDeny: true},
	} {
		t.Run(plan.String(), func(t *testing.T) {
			t.Parallel()
			server := rationtest.New(t)
			limiter, err := server.Client.Limiter("oracle", plan)
			require.NoError(t, err)
			denied := make(map[string]int)
			for _, r := range requests {
				server.Advance(day.Add(time.Duration(r.second) * time.Second).Sub(server.Now()))
				d, err := limiter.Allow(t.Context(), r.host)
				require.NoError(t, err)
				if !d.Allowed {
					denied[r.host]++
				}
			}
			var decided atomic.Int64
			got, err := traffic.Decide(t.Context(), plan, func() { decided.Add(1) })
			require.NoError(t, err)
			require.EqualValues(t, len(requests), decided.Load())
			require.Equal(t, len(requests), got.Admitted+got.Denied)
			for _, d := range got.DeniedKeys {
				require.Equal(t, denied[d.Key], d.Count, d.Key)
				delete(denied, d.Key)
			}
			require.Empty(t, denied)
		})
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	// Denied under one per day: a in the second minute, b in the second and twice in the third, c twice in the third.
	traffic := read(t, []request{
		{"c", 130}, {"a", 0}, {"a", 60}, {"b", 0}, {"b", 119}, {"b", 120}, {"b", 179}, {"c", 125}, {"c", 121}, {"d", 240},
	})
	require.Equal(t, 10, traffic.Requests)
	require.Equal(t, day, traffic.First)
	require.Equal(t, day.Add(4*time.Minute), traffic.Last)

	got, err := traffic.Decide(t.Context(), ration.FixedWindow{Limit: 1, Window: 24 * time.Hour}, func() {})
	require.NoError(t, err)
	at := func(second int) time.Time { return day.Add(time.Duration(second) * time.Second) }
	require.Equal(t, replay.Outcome{
		Plan:     "fixed-window 1/1d",
		Admitted: 4,
		Denied:   6,
		Keys:     4,
		DeniedKeys: []replay.Denied{
			{Key: "b", Count: 3, First: at(119), Last: at(179)},
			{Key: "c", Count: 2, First: at(125), Last: at(130)},
			{Key: "a", Count: 1, First: at(60), Last: at(60)},
		},
		Worst:       at(120),
		WorstDenied: 4,
	}, got)
	require.Equal(t, at(60), got.First())
	require.Equal(t, at(179), got.Last())
}
