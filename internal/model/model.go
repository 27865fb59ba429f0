// Package model says what plans must answer, in exact rational arithmetic and in the plainest form, for tests. It shares no
// code with the scripts or the twins, and counts in other terms than they do.
package model

import (
	"math/big"
	"sort"

	"github.com/go-ration/ration"
)

// Ask is what a plan is asked: Count requests of Cost units each, as many as fit. UpTo says that they are one request, which
// takes what fits.
type Ask struct {
	Cost, Count int64
	UpTo        bool
}

// Answer is what a plan says of a request. Times are in microseconds.
type Answer struct {
	Granted    int64 // requests
	Remaining  int64
	RetryAfter int64 // of a request that was denied
	ResetAfter int64
	Grant      Grant    // nil: no unit was granted
	Each       []Answer // of each plan of a MultiPlan
}

// Grant is what a model knows a grant by, to give it back.
type Grant any

// Model is the state of one key.
type Model interface {
	// Take decides at a moment of the server's clock, in microseconds.
	Take(now int64, ask Ask) Answer
	// Refund gives back the units of a grant of this model, or of one that was lost.
	Refund(now int64, grant Grant)
	// Change puts another plan of the same kind in the place of the present one.
	Change(plan ration.Plan)
	// Forget loses what is stored under the present plan.
	Forget()
}

// New makes the model of a fresh key.
func New(plan ration.Plan) Model {
	switch p := plan.(type) {
	case ration.FixedWindow:
		return &window{plan: p}
	case ration.SlidingWindow:
		return &slidingWindow{plan: p, counted: p}
	case ration.SlidingLog:
		return &slidingLog{plan: p}
	case ration.TokenBucket:
		return &bucket{plan: p}
	case ration.MultiPlan:
		return newMulti(p)
	case ration.GCRA:
		return &gcra{plan: p, full: make(map[string]*big.Rat)}
	default:
		panic("model: unknown plan")
	}
}

// perMicro is a rate in tokens per microsecond.
func perMicro(r ration.Rate) *big.Rat {
	return big.NewRat(r.Units*1000, int64(r.Per))
}

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func ceil(r *big.Rat) int64 {
	negative := new(big.Rat).Neg(r)
	return -floor(negative)
}

// leastWait is the least number of microseconds, up to most, after which ok holds, where it holds from then on.
func leastWait(most int64, ok func(wait int64) bool) int64 {
	return int64(sort.Search(int(most), func(wait int) bool { return ok(int64(wait)) }))
}
