package drill

import (
	"fmt"
	"time"

	"github.com/go-ration/ration/cmd/ration/internal/breakage"
)

// Status is how a bound fared.
type Status string

// The statuses.
const (
	Held      Status = "ok"
	Broken    Status = "BROKEN"
	NotJudged Status = "not judged"
)

// Bound is something that an outage must not do to the fleet, and whether it did.
type Bound struct {
	Name, Measured, Allowed string
	Status                  Status
	Why                     string // it is not judged
}

const (
	// tolerance is how much more than the plan allows a fleet may admit around outages, as a part of it: when Redis comes back, some
	// instances ask it already while others still decide by themselves.
	tolerance = 0.05
	// leastShare is the part of the quota that a fleet has to admit by itself.
	leastShare = 0.8
	// unitsToJudge, for each instance, are as many as the share of an instance has to have, so that the chance by which units
	// that do not divide are given to some is small beside it.
	unitsToJudge = 10
	// slack is how long the machine may keep a decision beyond its timeout.
	slack = 50 * time.Millisecond
	// settling is how long a breaker may take to open.
	settling = time.Second
	// probes are how many callers a second an instance may send to see whether Redis is back, and have wait.
	probes = 2
	// resumes is how long a fleet may take to notice that Redis is back.
	resumes = 2 * time.Second
)

// Bounds are all there are, in the order of a reader's questions.
func (r Run) Bounds() ([]Bound, error) {
	whole, err := r.wholeRun()
	if err != nil {
		return nil, err
	}
	bounds := []Bound{whole}
	for _, p := range r.Phases {
		if r.isOutage(p) {
			admitted, err := r.admittedIn(p)
			if err != nil {
				return nil, err
			}
			bounds = append(bounds, admitted)
		}
	}
	bounds = append(bounds, r.slowest())
	for _, p := range r.Phases {
		if r.isOutage(p) {
			bounds = append(bounds, r.waitingIn(p))
		}
	}
	for i, p := range r.Phases {
		if i > 0 && p.State == breakage.Healthy && r.isOutage(r.Phases[i-1]) {
			bounds = append(bounds, r.resumedAfter(r.Phases[i-1], p))
		}
	}
	return bounds, nil
}

// judge is a bound that holds or not.
func judge(name, measured, allowed string, holds bool) Bound {
	b := Bound{Name: name, Measured: measured, Allowed: allowed, Status: Held}
	if !holds {
		b.Status = Broken
	}
	return b
}

// unjudged is a bound that is shown and not judged.
func (b Bound) unjudged(why string) Bound {
	b.Status, b.Why = NotJudged, why
	return b
}

// wholeRun: the fleet admits no more than the plan allows, but for the tolerance.
func (r Run) wholeRun() (Bound, error) {
	limit, err := r.Limit(r.End())
	if err != nil {
		return Bound{}, err
	}
	admitted := tally(r.Samples).Admitted
	// At least a unit for each instance: a share that does not divide is rounded by chance.
	most := limit + max(int64(tolerance*float64(limit)), int64(r.Instances))
	b := judge("admitted in the whole run", fmt.Sprint(admitted), fmt.Sprintf("at most %d", most), admitted <= most)
	if r.Policy == Open {
		b = b.unjudged("the policy open admits all while Redis is away")
	}
	return b, nil
}

// admittedIn: by itself the fleet goes on admitting about what the quota allows.
func (r Run) admittedIn(p Phase) (Bound, error) {
	capacity, err := r.Limit(0)
	if err != nil {
		return Bound{}, err
	}
	t := r.Tally(p.From, p.Until)
	quota := r.Rate * p.Length().Seconds()
	least := leastShare * min(quota, float64(t.Offered))
	if r.grantsAtOnce() {
		least = max(least-leastShare*float64(capacity), 0)
	}
	most := (1+tolerance)*quota + float64(capacity)
	admitted := float64(t.Admitted)
	b := judge(fmt.Sprintf("admitted while %s", p.State), fmt.Sprint(t.Admitted),
		fmt.Sprintf("%.0f to %.0f", least, most), least <= admitted && admitted <= most)
	switch {
	case r.Policy != Local:
		return b.unjudged(fmt.Sprintf("the policy %s does not go by the quota", r.Policy)), nil
	case quota < float64(unitsToJudge*r.Instances):
		return b.unjudged("so small shares go by chance: raise the phase, or take a plan of a higher rate"), nil
	}
	return b, nil
}

// slowest: Redis holds nobody up for longer than the timeout.
func (r Run) slowest() Bound {
	most, slowest := r.Timeout+slack, time.Duration(0)
	for _, d := range r.Samples {
		slowest = max(slowest, r.waited(d))
	}
	return judge("slowest decision", Millis(slowest), "at most "+Millis(most), slowest <= most)
}

// waitingIn: once the breakers are open, nobody waits but to see whether Redis is back.
func (r Run) waitingIn(p Phase) Bound {
	from := min(p.From+settling, p.Until)
	decisions := r.Between(from, p.Until)
	waiting := 0
	for _, d := range decisions {
		if r.waited(d) > r.Timeout/2 {
			waiting++
		}
	}
	span := (p.Until - from).Seconds()
	most := len(decisions)/100 + int(probes*span*float64(r.Instances)) // and one in a hundred for other reasons
	b := judge(fmt.Sprintf("waited over %s while %s", Millis(r.Timeout/2), p.State),
		fmt.Sprintf("%d of %d", waiting, len(decisions)), fmt.Sprintf("at most %d", most), waiting <= most)
	if p.Length() < 2*settling {
		b = b.unjudged(fmt.Sprintf("an outage was shorter than %v", 2*settling))
	}
	return b
}

// resumedAfter: when Redis is back, each instance asks it again soon.
func (r Run) resumedAfter(outage, p Phase) Bound {
	after := r.withoutRedis(p)
	b := judge(fmt.Sprintf("all back on Redis after %s", outage.State), Seconds(after), "at most "+Seconds(resumes),
		after <= resumes)
	switch {
	case p.Length() < resumes:
		return b.unjudged(fmt.Sprintf("a phase in which Redis was back was shorter than %v", resumes))
	case b.Status == Broken && r.isStalledIn(p.From, p.From+after):
		return b.unjudged("the machine was so busy meanwhile that calls timed out on it")
	}
	return b
}

// withoutRedis is how long, in a phase, some instance decided without Redis before it was the first to decide.
func (r Run) withoutRedis(p Phase) (longest time.Duration) {
	resumed := make(map[int]bool)
	for _, d := range r.Between(p.From, p.Until) {
		switch {
		case d.ByRedis:
			resumed[d.Instance] = true
		case !resumed[d.Instance]:
			longest = d.At - p.From
		}
	}
	return longest
}
