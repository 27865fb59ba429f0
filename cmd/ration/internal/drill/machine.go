package drill

import (
	"context"
	"slices"
	"time"
)

// Stall is a time in which the machine was busy with something else: what had to run then did not, and no limiter can help it.
type Stall struct{ From, Until time.Duration }

const (
	beat       = 5 * time.Millisecond  // from one look at the machine to the next
	leastStall = 10 * time.Millisecond // that is noted
)

// watchMachine notes the times in which this process did not get to run, until ctx ends.
func (r *recorder) watchMachine(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due := time.Since(r.start) + beat
		timer.Reset(beat)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if now := time.Since(r.start); now-due >= leastStall {
			r.mu.Lock()
			r.run.Stalls = append(r.run.Stalls, Stall{due, now})
			r.mu.Unlock()
		}
	}
}

// waited is how long a decision took, less the time in which the machine kept it from being made.
func (r Run) waited(d Decision) time.Duration {
	took := d.Took
	for _, s := range r.Stalls {
		took -= max(min(s.Until, d.At)-max(s.From, d.At-d.Took), 0)
	}
	return took
}

// isStalledIn says whether between two times the machine was so busy that a call may have timed out by that alone.
func (r Run) isStalledIn(from, until time.Duration) bool {
	return slices.ContainsFunc(r.Stalls, func(s Stall) bool {
		return s.Until > from && s.From < until && s.Until-s.From >= r.Timeout
	})
}

// LongestStall is the longest time in which the machine was busy with something else.
func (r Run) LongestStall() (longest time.Duration) {
	for _, s := range r.Stalls {
		longest = max(longest, s.Until-s.From)
	}
	return longest
}
