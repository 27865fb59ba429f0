package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-ration/ration"
)

// Outcome is what a plan would have done to the requests of a log.
type Outcome struct {
	Plan             string
	Admitted, Denied int
	Keys             int      // in the log
	DeniedKeys       []Denied // those of which a request was denied, most denied first, ties in the order of the keys

	// Worst is the minute of UTC with the most denials, the first of several, with how many there were; zero if none was.
	Worst       time.Time
	WorstDenied int
}

// Denied is the denied requests of a key.
type Denied struct {
	Key         string // as in the log
	Count       int
	First, Last time.Time // in UTC
}

func newOutcome(plan ration.Plan, keys []arrivals, denied [][]int64) Outcome {
	o := Outcome{Plan: plan.String(), Keys: len(keys)}
	minutes := make(map[int64]int)
	for i, a := range keys {
		seconds := denied[i]
		o.Denied += len(seconds)
		o.Admitted += len(a.seconds) - len(seconds)
		if len(seconds) == 0 {
			continue
		}
		o.DeniedKeys = append(o.DeniedKeys, Denied{
			Key:   a.key,
			Count: len(seconds),
			First: at(seconds[0]),
			Last:  at(seconds[len(seconds)-1]),
		})
		for _, s := range seconds {
			minutes[s/60]++
		}
	}
	slices.SortFunc(o.DeniedKeys, func(a, b Denied) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	})
	for minute, n := range minutes {
		start := at(minute * 60)
		if n > o.WorstDenied || n == o.WorstDenied && start.Before(o.Worst) {
			o.Worst, o.WorstDenied = start, n
		}
	}
	return o
}

// First is the time of the first denial.
func (o Outcome) First() time.Time {
	return slices.MinFunc(o.DeniedKeys, func(a, b Denied) int { return a.First.Compare(b.First) }).First
}

// Last is the time of the last denial.
func (o Outcome) Last() time.Time {
	return slices.MaxFunc(o.DeniedKeys, func(a, b Denied) int { return a.Last.Compare(b.Last) }).Last
}
