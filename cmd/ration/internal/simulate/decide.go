package simulate

import (
	"context"
	"errors"
	"time"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/virtual"
)

// secondZero is what the server's clock says at second 0 of a trace: a whole minute, hour and day, so that windows on the
// clock's grid begin there.
var secondZero = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Decide decides all arrivals under a plan, by the scripts that a real Redis runs, each at its time, with nothing decided
// before them. It calls onDecision after each. An arrival that costs more than the plan can ever grant is denied.
func (t Trace) Decide(ctx context.Context, plan ration.Plan, onDecision func()) (Outcome, error) {
	limiter, err := virtual.New(plan)
	if err != nil {
		return Outcome{}, err
	}
	defer limiter.Close()
	allowed := make([]bool, len(t))
	for i, a := range t {
		allowed[i], err = limiter.AllowAt(ctx, secondZero.Add(a.At), "trace", a.Cost)
		if err != nil && !errors.Is(err, ration.ErrCostExceedsLimit) {
			return Outcome{}, err
		}
		onDecision()
	}
	return newOutcome(plan, t, allowed), nil
}
