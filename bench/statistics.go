package main

import "slices"

// order is the order in which n peers run in a round: in turn, with another one first in the next round, so that whatever
// wanders during a round favours none.
func order(n, round int) []int {
	turns := make([]int, n)
	for i := range turns {
		turns[i] = (i + round) % n
	}
	return turns
}

// inRounds measures n peers once in each round, and gives their figures, [peer][round].
func inRounds[F any](rounds, n int, measure func(peer int) (F, error)) ([][]F, error) {
	figures := make([][]F, n)
	for round := range rounds {
		for _, peer := range order(n, round) {
			figure, err := measure(peer)
			if err != nil {
				return nil, err
			}
			figures[peer] = append(figures[peer], figure)
		}
	}
	return figures, nil
}

// median is the figure in the middle; of an even number, the mean of the two in the middle.
func median(figures []float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// multiple is the median of how many times the base's figure of a round the figure of the same round is. The two were
// measured within seconds, so that a machine which is busy for a while makes both smaller.
func multiple(figures, base []float64) float64 {
	multiples := make([]float64, len(figures))
	for round := range figures {
		multiples[round] = figures[round] / base[round]
	}
	return median(multiples)
}
