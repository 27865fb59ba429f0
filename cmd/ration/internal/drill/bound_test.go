package drill

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/breakage"
)

// statuses are those of the bounds of a run, by the beginnings of their names.
func statuses(t *testing.T, r Run) map[string]Status {
	t.Helper()
	bounds, err := r.Bounds()
	require.NoError(t, err)
	found := make(map[string]Status)
	for _, b := range bounds {
		for _, name := range boundNames {
			if strings.HasPrefix(b.Name, name) {
				found[name] = b.Status
			}
		}
		require.Equal(t, b.Status == NotJudged, b.Why != "", b)
	}
	require.Len(t, bounds, len(found))
	return found
}

const (
	whole    = "admitted in the whole run"
	inOutage = "admitted while stopped"
	slowest  = "slowest decision"
	waiting  = "waited over 5ms while stopped"
	back     = "all back on Redis after stopped"
)

var boundNames = []string{whole, inOutage, slowest, waiting, back}

func TestBounds(t *testing.T) {
	t.Parallel()
	inStop := func(d *Decision) bool { return d.At >= 2*time.Second && d.At < 6*time.Second }
	for _, c := range []struct {
		name   string
		change func(*Decision)
		run    func(*Run)
		want   map[string]Status // of those that are not ok
	}{
		{name: "all hold"},
		{
			name: "too much admitted, while Redis was healthy",
			change: func(d *Decision) {
				d.Admitted = d.Admitted || d.At < 500*time.Millisecond
			},
			want: map[string]Status{whole: Broken},
		},
		{
			name:   "twice the quota without Redis",
			change: func(d *Decision) { d.Admitted = d.Admitted || inStop(d) && d.At%(10*time.Millisecond) == 0 },
			want:   map[string]Status{whole: Broken, inOutage: Broken},
		},
		{
			name:   "nothing admitted without Redis",
			change: func(d *Decision) { d.Admitted = d.Admitted && !inStop(d) },
			want:   map[string]Status{inOutage: Broken},
		},
		{
			name: "nothing admitted without Redis, but by the policy",
			change: func(d *Decision) {
				d.Admitted = d.Admitted && !inStop(d)
			},
			run:  func(r *Run) { r.Policy = Closed },
			want: map[string]Status{inOutage: NotJudged},
		},
		{
			name:   "all admitted without Redis, by the policy",
			change: func(d *Decision) { d.Admitted = d.Admitted || inStop(d) },
			run:    func(r *Run) { r.Policy = Open },
			want:   map[string]Status{whole: NotJudged, inOutage: NotJudged},
		},
		{
			name: "one decision takes long",
			change: func(d *Decision) {
				if d.At == 8*time.Second {
					d.Took = 61 * time.Millisecond
				}
			},
			want: map[string]Status{slowest: Broken},
		},
		{
			name: "all wait at first",
			change: func(d *Decision) {
				if inStop(d) && d.At < 3*time.Second {
					d.Took = 10 * time.Millisecond
				}
			},
		},
		{
			name: "probes wait",
			change: func(d *Decision) {
				if inStop(d) && d.At%(500*time.Millisecond) == 0 {
					d.Took = 10 * time.Millisecond
				}
			},
		},
		{
			name: "many wait",
			change: func(d *Decision) {
				if inStop(d) && d.At%(50*time.Millisecond) == 0 {
					d.Took = 10 * time.Millisecond
				}
			},
			want: map[string]Status{waiting: Broken},
		},
		{
			name:   "back late",
			change: func(d *Decision) { d.ByRedis = d.At < 2*time.Second || d.At > 8100*time.Millisecond },
			want:   map[string]Status{back: Broken},
		},
		{
			name:   "back late, on a busy machine",
			change: func(d *Decision) { d.ByRedis = d.At < 2*time.Second || d.At > 8100*time.Millisecond },
			run:    func(r *Run) { r.Stalls = []Stall{{7 * time.Second, 7020 * time.Millisecond}} },
			want:   map[string]Status{back: NotJudged},
		},
		{
			name: "a busy machine holds decisions up",
			change: func(d *Decision) {
				if d.At == 8*time.Second {
					d.Took = 161 * time.Millisecond
				}
			},
			run: func(r *Run) { r.Stalls = []Stall{{7850 * time.Millisecond, 7990 * time.Millisecond}} },
		},
		{
			name:   "one instance does not come back",
			change: func(d *Decision) { d.ByRedis = d.ByRedis && (d.At < 2*time.Second || d.Instance == 0) },
			want:   map[string]Status{back: Broken},
		},
		{
			name: "one decision without Redis after it is back",
			change: func(d *Decision) {
				d.ByRedis = d.ByRedis && d.At != 8500*time.Millisecond
			},
		},
		{
			name: "ended early",
			run: func(r *Run) {
				r.Phases = r.Phases[:2]
				r.Phases[1].Until = 2500 * time.Millisecond
			},
			want: map[string]Status{inOutage: Held, waiting: NotJudged},
		},
		{
			name: "ended as Redis was back",
			run:  func(r *Run) { r.Phases[2].Until = 7 * time.Second },
			want: map[string]Status{back: NotJudged},
		},
		{
			name: "small shares",
			run:  func(r *Run) { r.Instances = 100 },
			want: map[string]Status{inOutage: NotJudged},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := made(c.change)
			if c.run != nil {
				c.run(&r)
				r.Samples = r.Between(0, r.End())
			}
			got := statuses(t, r)
			for _, name := range boundNames {
				status, there := got[name]
				want, said := c.want[name]
				switch {
				case said:
					require.Equal(t, want, status, name)
				case there:
					require.Equal(t, Held, status, name)
				default:
					require.Equal(t, back, name, "only what did not come to pass has no bound")
				}
			}
		})
	}
}

// What is slow is an outage only where answers come after the timeout.
func TestSlowIsNoOutage(t *testing.T) {
	t.Parallel()
	r := made(nil)
	r.Phases[1].State = breakage.Slow
	bounds, err := r.Bounds()
	require.NoError(t, err)
	require.Len(t, bounds, 5)
	r.Latency = 5 * time.Millisecond
	bounds, err = r.Bounds()
	require.NoError(t, err)
	require.Len(t, bounds, 2)
}

// A window may have granted all it has just before an outage, or grant it just after its beginning.
func TestBoundsOfWindow(t *testing.T) {
	t.Parallel()
	r := made(nil)
	r.Plan = ration.FixedWindow{Limit: 100, Window: time.Second}
	bounds, err := r.Bounds()
	require.NoError(t, err)
	require.Equal(t, Bound{inOutage, "400", "240 to 520", Held, ""}, bounds[1])
}
