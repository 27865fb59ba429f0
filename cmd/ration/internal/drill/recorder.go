package drill

import (
	"slices"
	"sync"
	"time"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/breakage"
)

// recorder notes decisions. It is safe for concurrent use.
type recorder struct {
	start time.Time

	mu      sync.Mutex
	run     Run
	changed time.Duration // when the present phase began
}

// decided notes the answer to a request, which counts from now.
func (r *recorder) decided(instance int, took time.Duration, d ration.Decision, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.run.Errors++
		r.run.LastError = err
		return
	}
	r.run.Samples = append(r.run.Samples, Decision{
		At:       time.Since(r.start), // read with the lock, so that they are in order
		Took:     took,
		Instance: instance,
		ByRedis:  d.Source == ration.SourceRedis,
		Admitted: d.Allowed,
	})
}

// late notes a request that was not offered.
func (r *recorder) late() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run.Late++
}

// endPhase notes that the state in which Redis was ends now.
func (r *recorder) endPhase(present breakage.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run.Phases = append(r.run.Phases, r.phaseLocked(present))
	r.changed = r.run.End()
}

// now is the run so far, with the present phase.
func (r *recorder) now(present breakage.State) Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.run
	run.Phases = append(slices.Clip(run.Phases), r.phaseLocked(present))
	return run
}

func (r *recorder) phaseLocked(present breakage.State) Phase {
	return Phase{State: present, From: r.changed, Until: time.Since(r.start)}
}

// result is the run when it has ended.
func (r *recorder) result() Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run
}
