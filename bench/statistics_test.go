package main

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		figures []float64
		want    float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 1000, 2}, 3},
	} {
		given := append([]float64(nil), c.figures...)
		require.InDelta(t, c.want, median(c.figures), 0, "%v", given)
		require.Equal(t, given, c.figures, "what is given stays as it is")
	}
}

func TestMultiple(t *testing.T) {
	t.Parallel()
	// In the second round the machine was busy, and in the third only while the peer ran.
	require.InDelta(t, 2, multiple([]float64{200, 20, 30}, []float64{100, 10, 100}), 0)
	require.InDelta(t, 1, multiple([]float64{5, 7}, []float64{5, 7}), 0)
	require.True(t, math.IsNaN(multiple([]float64{math.NaN()}, []float64{1})))
}

// In n rounds each peer runs once at each place.
func TestOrder(t *testing.T) {
	t.Parallel()
	require.Equal(t, []int{0, 1, 2}, order(3, 0))
	require.Equal(t, []int{1, 2, 0}, order(3, 1))
	require.Equal(t, []int{2, 0, 1}, order(3, 2))
	require.Equal(t, []int{0, 1, 2}, order(3, 3))
}

func TestInRounds(t *testing.T) {
	t.Parallel()
	var turns []int
	figures, err := inRounds(2, 3, func(peer int) (float64, error) {
		turns = append(turns, peer)
		return float64(len(turns)), nil
	})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2, 1, 2, 0}, turns)
	require.Equal(t, [][]float64{{1, 6}, {2, 4}, {3, 5}}, figures)

	broken := errors.New("broken")
	_, err = inRounds(2, 3, func(int) (float64, error) { return 0, broken })
	require.ErrorIs(t, err, broken)
}
