package drill

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/breakage"
	"github.com/go-ration/ration/cmd/ration/internal/fleet"
)

// Run is what happened in a drill. Times are since its start, by the monotonic clock of this process: that of Redis is not to be had
// in an outage.
type Run struct {
	Plan        ration.Plan
	Rate        float64 // of the plan, units a second
	Instances   int
	Timeout     time.Duration // of a decision
	Latency     time.Duration // that is added while Redis is slow
	Policy      Policy
	PhaseLength time.Duration // planned

	Started time.Time
	Phases  []Phase    // in order, each from the end of the one before
	Samples []Decision // in the order of their times
	Stalls  []Stall    // of the machine, in order

	Late      int64 // requests not offered, because too many before them took too long
	Errors    int64 // requests without a decision
	LastError error // of those
	Leftover  error // why the key could not be deleted; it expires by itself
}

// Phase is a time in which Redis was in a state.
type Phase struct {
	State       breakage.State
	From, Until time.Duration
}

// Length is how long the phase was.
func (p Phase) Length() time.Duration { return p.Until - p.From }

// Decision is the answer to a request.
type Decision struct {
	At       time.Duration // when it was made
	Took     time.Duration
	Instance int
	ByRedis  bool // and not by the failure policy
	Admitted bool
}

// Tally sums decisions up.
type Tally struct {
	Offered, Admitted int64
	ByRedis, ByPolicy int64
	// P50, P99 and Max are of how long decisions took; zero if there was none.
	P50, P99, Max time.Duration
}

// Between are the decisions made from one time up to another.
func (r Run) Between(from, until time.Duration) []Decision {
	at := func(t time.Duration) int {
		i, _ := slices.BinarySearchFunc(r.Samples, t, func(d Decision, t time.Duration) int { return cmp.Compare(d.At, t) })
		return i
	}
	return r.Samples[at(from):at(until)]
}

// Tally sums up the decisions made from one time up to another.
func (r Run) Tally(from, until time.Duration) Tally { return tally(r.Between(from, until)) }

func tally(decisions []Decision) Tally {
	t := Tally{Offered: int64(len(decisions))}
	took := make([]time.Duration, len(decisions))
	for i, d := range decisions {
		took[i] = d.Took
		if d.Admitted {
			t.Admitted++
		}
		if d.ByRedis {
			t.ByRedis++
		}
	}
	t.ByPolicy = t.Offered - t.ByRedis
	if len(took) > 0 {
		slices.Sort(took)
		t.P50, t.P99, t.Max = quantile(took, 50), quantile(took, 99), took[len(took)-1]
	}
	return t
}

// quantile is the least of sorted times that so many percent of them do not exceed.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}

// End is when the run ended.
func (r Run) End() time.Duration {
	if len(r.Phases) == 0 {
		return 0
	}
	return r.Phases[len(r.Phases)-1].Until
}

// Limit is the most units that the plan allows from the start of the run to a time.
func (r Run) Limit(until time.Duration) (int64, error) {
	from := r.Started.UnixMicro()
	return fleet.Limit(r.Plan, from, from+until.Microseconds())
}

// Excess is how many were admitted by a time beyond what the plan allows until then.
func (r Run) Excess(until time.Duration) int64 {
	limit, err := r.Limit(until)
	if err != nil {
		return 0 // of a plan without a limit, which no Drill takes
	}
	return max(r.Tally(0, until).Admitted-limit, 0)
}

// StateIn is the state that Redis was in for the longest part of a span of time.
func (r Run) StateIn(from, until time.Duration) (state breakage.State) {
	longest := time.Duration(-1)
	for _, p := range r.Phases {
		if part := min(p.Until, until) - max(p.From, from); part > longest {
			state, longest = p.State, part
		}
	}
	return state
}

// isOutage says whether Redis is of no use in a phase.
func (r Run) isOutage(p Phase) bool {
	switch p.State {
	case breakage.Stopped, breakage.Killed:
		return true
	case breakage.Slow:
		return r.Latency > r.Timeout
	case breakage.Healthy:
	}
	return false
}

// grantsAtOnce says whether the plan grants its limit at once and then nothing for a while, instead of a little all the time.
func (r Run) grantsAtOnce() bool {
	switch r.Plan.(type) {
	case ration.TokenBucket, ration.GCRA:
		return false
	}
	return true
}
