package simulate

import (
	"time"

	"github.com/go-ration/ration"
)

// Outcome is what a plan would have done to a trace.
type Outcome struct {
	Plan    string
	Allowed []bool // of each arrival

	Admitted, Denied int64 // units
	// Peak100ms and Peak1s are the most units that were admitted in any half-open span [t, t + 100 ms) and [t, t + 1 s).
	Peak100ms, Peak1s int64

	// ByInstant is what happened at each instant of the trace, in their order; nil if they are more than MaxInstants.
	ByInstant []Instant
}

// MaxInstants is how many instants a trace has at most for Outcome.ByInstant.
const MaxInstants = 10

// Instant is what happened at one time of a trace.
type Instant struct {
	At                time.Duration // since second 0 of the trace
	Arrived, Admitted int64         // units
}

func newOutcome(plan ration.Plan, t Trace, allowed []bool) Outcome {
	o := Outcome{
		Plan:      plan.String(),
		Allowed:   allowed,
		Peak100ms: t.peak(allowed, 100*time.Millisecond),
		Peak1s:    t.peak(allowed, time.Second),
		ByInstant: t.byInstant(allowed),
	}
	for i, a := range t {
		if allowed[i] {
			o.Admitted += a.Cost
		} else {
			o.Denied += a.Cost
		}
	}
	return o
}

// peak is the most units admitted in any half-open span of a length. It moves a span along the trace, by its last arrival.
func (t Trace) peak(allowed []bool, span time.Duration) int64 {
	var units, most int64 // units are those admitted from t[first] to t[i]
	first := 0
	for i, a := range t {
		for ; a.At-t[first].At >= span; first++ {
			if allowed[first] {
				units -= t[first].Cost
			}
		}
		if allowed[i] {
			units += a.Cost
		}
		most = max(most, units)
	}
	return most
}

func (t Trace) byInstant(allowed []bool) []Instant {
	var instants []Instant
	for i, a := range t {
		if i == 0 || a.At != t[i-1].At {
			if len(instants) == MaxInstants {
				return nil
			}
			instants = append(instants, Instant{At: a.At})
		}
		now := &instants[len(instants)-1]
		now.Arrived += a.Cost
		if allowed[i] {
			now.Admitted += a.Cost
		}
	}
	return instants
}
