// Package simulate decides a trace of arrivals as Redis would have decided them when they came, in virtual time.
package simulate

import (
	"strconv"
	"strings"
	"time"
)

// Trace is arrivals at one key, in the order of their times; those of one instant are in the order they were given in.
type Trace []Arrival

// Arrival is a request.
type Arrival struct {
	At   time.Duration // since second 0 of the trace: whole microseconds, 0 to MaxSeconds
	Cost int64         // units, 0 or more; those of a trace add up to at most MaxUnits
}

// The traces that have a name.
const (
	Boundary  = "boundary"
	TwoBursts = "twobursts"
)

// Named is the trace of a name, if there is one.
func Named(name string) (Trace, bool) {
	switch name {
	case Boundary:
		return boundary(), true
	case TwoBursts:
		return twoBursts(), true
	default:
		return nil, false
	}
}

// boundary is 50 arrivals a second for 3 s, and besides them 100 in the last tenth of the first second and 100 in the first
// tenth of the next: what a window of a second lets through twice.
func boundary() Trace {
	var t Trace
	for millis := time.Duration(0); millis < 3000; millis++ {
		at := millis * time.Millisecond
		if millis%20 == 0 {
			t = append(t, Arrival{at, 1})
		}
		if 900 <= millis && millis < 1100 {
			t = append(t, Arrival{at, 1})
		}
	}
	return t
}

// twoBursts is 100 arrivals at once shortly before a second ends, and 100 shortly after.
func twoBursts() Trace {
	var t Trace
	for _, at := range []time.Duration{990 * time.Millisecond, 1010 * time.Millisecond} {
		for range 100 {
			t = append(t, Arrival{at, 1})
		}
	}
	return t
}

// Units is what all arrivals ask for.
func (t Trace) Units() int64 {
	var units int64
	for _, a := range t {
		units += a.Cost
	}
	return units
}

// Seconds writes a time of a trace, exactly, as a number of seconds: "0.99".
func Seconds(at time.Duration) string {
	whole := strconv.FormatInt(int64(at/time.Second), 10)
	part := strconv.FormatInt(int64(time.Second+at%time.Second)/int64(time.Microsecond), 10)[1:]
	return strings.TrimRight(strings.TrimRight(whole+"."+part, "0"), ".")
}
