package fleet

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/audit"
)

// Result is what a fleet has done.
type Result struct {
	Instances []Tally
	All       Tally
	Late      int64 // requests not offered, because those before took too long

	// Span is from the first admission to the last decision, on the server's clock, and Limit the most units that the
	// plan can grant in it.
	Span  time.Duration
	Limit int64
	// Excess is how many were certainly admitted beyond what the plan guarantees, by the server's clock read before and
	// after each decision. Of Untimed admissions it could not be read, and they are not held against the plan.
	Excess, Untimed int64

	P50, P99  time.Duration // of a decision's latency; zero if there was none
	LastError error         // of the decisions that failed
	Leftover  error         // why the key could not be deleted; it expires by itself
}

// AloneExcess is by how much the instances go beyond the limit if each has a limiter of its own.
func (r Result) AloneExcess() int64 { return max(r.All.AloneAdmitted-r.Limit, 0) }

func (f *Fleet) result() (Result, error) {
	r := Result{Instances: f.Now()}
	var admissions []audit.Admission
	var latest int64
	latency := hdrhistogram.New(f.instances[0].latency.LowestTrackableValue(), f.instances[0].latency.HighestTrackableValue(), 2)
	for n, i := range f.instances {
		r.All.Add(r.Instances[n])
		admissions = append(admissions, i.admissions...)
		r.Untimed += i.untimed
		latest = max(latest, i.latest)
		latency.Merge(i.latency)
		if i.lastError != nil {
			r.LastError = i.lastError
		}
	}
	if r.All.Errors > 0 && r.All.Errors == r.All.Offered {
		return Result{}, fmt.Errorf("%w: %w", ErrNoDecision, r.LastError)
	}
	if r.All.Admitted+r.All.Denied > 0 {
		r.P50 = time.Duration(latency.ValueAtQuantile(50)) * time.Microsecond
		r.P99 = time.Duration(latency.ValueAtQuantile(99)) * time.Microsecond
	}
	from := latest
	for _, a := range admissions {
		from = min(from, a.Before)
	}
	r.Span = time.Duration(latest-from) * time.Microsecond
	var err error
	if r.Limit, err = Limit(f.config.Plan, from, latest); err != nil {
		return Result{}, err
	}
	r.Excess, err = audit.Excess(f.config.Plan, admissions)
	return r, err
}

// Limit is the most units that a plan can grant between two moments of one clock, in microseconds since 1970, if the first of
// them is that of a fresh key's first grant.
func Limit(plan ration.Plan, from, until int64) (int64, error) {
	switch p := plan.(type) {
	case ration.FixedWindow:
		window := p.Window.Microseconds()
		if p.Aligned {
			from -= from % window // for the window of the clock's grid that was open then counts as well
		} else {
			// A window ends on a whole millisecond, so it may be shorter by less than one.
			until = from + (until-from)/(window-999)*window
		}
	case ration.SlidingWindow:
		from -= from % p.Window.Microseconds() // its windows are those of the grid too
	}
	return audit.Bound(plan, time.Duration(until-from)*time.Microsecond)
}
