package chart

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration/cmd/ration/internal/simulate"
)

func TestTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		ticker   ticker
		from, to float64
		want     []string
	}{
		{"steps of 1", ticker{steps: 4}, 0, 4, []string{"0", "1", "2", "3", "4"}},
		{"steps of 2", ticker{steps: 4}, 0, 8, []string{"0", "2", "4", "6", "8"}},
		{"steps of 5", ticker{steps: 4}, 3, 23, []string{"5", "10", "15", "20"}},
		{"steps of 10, not of 5.1", ticker{steps: 4}, 0, 20.5, []string{"0", "10", "20"}},
		{"decimals", ticker{steps: 5}, 0.99, 1.01, []string{"0.990", "0.995", "1.000", "1.005", "1.010"}},
		{"no more decimals than needed", ticker{steps: 4}, 0, 3.9, []string{"0", "1", "2", "3"}},
		{"no half units", ticker{steps: 4, least: 1}, 0, 1.05, []string{"0", "1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, tick := range c.ticker.Ticks(c.from, c.to) {
				got = append(got, tick.Label)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestBins(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		first, last time.Duration
		want        bins
		wantName    string
	}{
		{"one instant", 1500 * time.Microsecond, 1500 * time.Microsecond, bins{time.Millisecond, 1, 1}, "1 ms"},
		{"microseconds", 7 * time.Microsecond, 156 * time.Microsecond, bins{time.Microsecond, 7, 150}, "1 µs"},
		{"one too many", 7 * time.Microsecond, 157 * time.Microsecond, bins{2 * time.Microsecond, 3, 76}, "2 µs"},
		{"milliseconds", 0, 2980 * time.Millisecond, bins{20 * time.Millisecond, 0, 150}, "20 ms"},
		{"fives", 0, 500 * time.Second, bins{5 * time.Second, 0, 101}, "5 s"},
		{"all there is", 0, simulate.MaxSeconds * time.Second, bins{20_000_000 * time.Second, 0, 101}, "20000000 s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			trace := simulate.Trace{{At: c.first, Cost: 2}, {At: c.last, Cost: 3}}
			got := newBins(trace)
			require.Equal(t, c.want, got)
			require.Equal(t, c.wantName, got.name())
			require.LessOrEqual(t, got.start(0), c.first.Seconds())
			require.Greater(t, got.start(got.count), c.last.Seconds())

			units := got.units(trace, func(i int) bool { return i == 1 })
			require.Len(t, units, c.want.count)
			require.InDelta(t, 3, units[c.want.count-1], 0)
		})
	}
}
