package simulate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration/cmd/ration/internal/simulate"
)

func TestNamed(t *testing.T) {
	t.Parallel()
	count := func(trace simulate.Trace, from, until time.Duration) (n int) {
		for _, a := range trace {
			require.EqualValues(t, 1, a.Cost)
			if from <= a.At && a.At < until {
				n++
			}
		}
		return n
	}
	const ms = time.Millisecond

	trace, found := simulate.Named(simulate.Boundary)
	require.True(t, found)
	require.Len(t, trace, 350)
	require.EqualValues(t, 350, trace.Units())
	require.IsNonDecreasing(t, times(trace))
	require.Equal(t, []time.Duration{0, 20 * ms, 40 * ms}, times(trace)[:3])
	require.Equal(t, 2980*ms, trace[349].At)
	for _, c := range []struct {
		from, until time.Duration
		want        int
	}{
		{0, 900, 45}, {900, 901, 2}, {901, 902, 1}, {900, 1000, 105}, {1000, 1100, 105}, {1099, 1100, 1}, {1100, 3000, 95},
	} {
		require.Equal(t, c.want, count(trace, c.from*ms, c.until*ms), "from %d to %d ms", c.from, c.until)
	}

	trace, found = simulate.Named(simulate.TwoBursts)
	require.True(t, found)
	require.Len(t, trace, 200)
	require.IsNonDecreasing(t, times(trace))
	require.Equal(t, 100, count(trace, 990*ms, 991*ms))
	require.Equal(t, 100, count(trace, 1010*ms, 1011*ms))

	_, found = simulate.Named("./boundary")
	require.False(t, found)
}

func times(trace simulate.Trace) []time.Duration {
	var all []time.Duration
	for _, a := range trace {
		all = append(all, a.At)
	}
	return all
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for at, want := range map[time.Duration]string{
		0:                               "0",
		time.Microsecond:                "0.000001",
		990 * time.Millisecond:          "0.99",
		time.Second:                     "1",
		100*time.Second + time.Second/2: "100.5",
		simulate.MaxSeconds*time.Second - time.Microsecond: "1999999999.999999",
	} {
		require.Equal(t, want, simulate.Seconds(at))
	}
}
