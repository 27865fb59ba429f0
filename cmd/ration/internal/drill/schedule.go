package drill

import (
	"time"

	"github.com/go-ration/ration/cmd/ration/internal/breakage"
)

// step is how long Redis is to be in a state.
type step struct {
	state  breakage.State
	length time.Duration
}

// countedBy is when a fleet that starts at once knows how many it is.
const countedBy = 1500 * time.Millisecond

// schedule breaks Redis in each way for a phase, and has it healthy for one after each; and for most of one before the first.
func schedule(phase time.Duration) []step {
	steps := []step{{breakage.Healthy, max(phase*3/4, countedBy)}}
	for _, state := range []breakage.State{breakage.Stopped, breakage.Killed, breakage.Slow} {
		steps = append(steps, step{state, phase}, step{breakage.Healthy, phase})
	}
	return steps
}

// duration is how long all steps take.
func duration(steps []step) (sum time.Duration) {
	for _, s := range steps {
		sum += s.length
	}
	return sum
}
