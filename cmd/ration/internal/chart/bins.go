package chart

import (
	"fmt"
	"time"

	"github.com/go-ration/ration/cmd/ration/internal/simulate"
)

// bins are equal parts of the time of a trace, side by side, which hold all its arrivals.
type bins struct {
	width time.Duration // 1, 2 or 5 times a power of ten microseconds
	first int64         // the first bin begins at first * width
	count int
}

// maxBins is how many bins are wide enough to be seen.
const maxBins = 150

func newBins(t simulate.Trace) bins {
	first, last := t[0].At, t[len(t)-1].At
	width := time.Microsecond
	if first == last {
		width = time.Millisecond // there is nothing to tell apart
	}
	for step := 0; last/width-first/width >= maxBins; step++ {
		// 1, 2, 5, 10
		if step%3 == 1 {
			width = width / 2 * 5
		} else {
			width *= 2
		}
	}
	return bins{width, int64(first / width), int(last/width-first/width) + 1}
}

// start is when a bin begins, in seconds; that of b.count is when the last bin ends.
func (b bins) start(i int) float64 {
	return (time.Duration(b.first+int64(i)) * b.width).Seconds()
}

// units counts, for each bin, the units of the arrivals that are to be counted.
func (b bins) units(t simulate.Trace, counted func(i int) bool) []float64 {
	units := make([]float64, b.count)
	for i, a := range t {
		if counted(i) {
			units[int64(a.At/b.width)-b.first] += float64(a.Cost)
		}
	}
	return units
}

// name is how wide the bins are.
func (b bins) name() string {
	switch {
	case b.width >= time.Second:
		return fmt.Sprintf("%d s", b.width/time.Second)
	case b.width >= time.Millisecond:
		return fmt.Sprintf("%d ms", b.width/time.Millisecond)
	default:
		return fmt.Sprintf("%d µs", b.width/time.Microsecond)
	}
}
