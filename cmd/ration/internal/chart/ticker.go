package chart

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// ticker marks an axis at multiples of 1, 2 or 5 times a power of ten.
type ticker struct {
	steps float64 // how many there are at most between marks
	least float64 // the least step
}

// timeTicks mark the times of bins, as densely as the length of their numbers lets them.
func timeTicks(b bins) ticker {
	const decimals = 6
	characters := len(strconv.FormatFloat(b.start(b.count), 'f', decimals, 64))
	return ticker{steps: min(9, 100/float64(characters)), least: 1e-6}
}

// Ticks are the marks from one number to a greater one.
func (t ticker) Ticks(from, to float64) []plot.Tick {
	least := max((to-from)/t.steps, t.least)
	exponent := int(math.Floor(math.Log10(least)))
	step := math.Pow10(exponent)
	switch ratio := least / step; {
	case ratio > 5:
		exponent++
		step = math.Pow10(exponent)
	case ratio > 2:
		step *= 5
	case ratio > 1:
		step *= 2
	}
	var ticks []plot.Tick
	for n := math.Ceil(from / step); n*step <= to; n++ {
		label := strconv.FormatFloat(n*step, 'f', max(-exponent, 0), 64)
		ticks = append(ticks, plot.Tick{Value: n * step, Label: label})
	}
	return ticks
}
