package integration

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// withoutBreaker lets calls through, however many before got no answer.
func withoutBreaker() ration.ClientOption {
	return ration.WithBreaker(ration.Breaker{Failures: math.MaxInt, Share: 1})
}

// timedCall is what a request for a unit came to.
type timedCall struct {
	decision ration.Decision
	err      error
	took     time.Duration
}

func makeCall(limiter *ration.Limiter, key string) timedCall {
	begin := time.Now()
	d, err := limiter.Allow(context.Background(), key)
	return timedCall{d, err, time.Since(begin)}
}

// makeCalls has so many callers make so many calls of a key each, one after the other.
func makeCalls(limiter *ration.Limiter, key string, callers, each int) []timedCall {
	calls := make([]timedCall, callers*each)
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := range each {
				calls[caller*each+i] = makeCall(limiter, key)
			}
		})
	}
	group.Wait()
	return calls
}

// requireDecidedWithout holds that FailClosed decided the call, and says why.
func (c timedCall) requireDecidedWithout(t *testing.T) {
	t.Helper()
	require.NoError(t, c.err)
	require.Equal(t, ration.SourceFailClosed, c.decision.Source)
	require.ErrorIs(t, c.decision.Cause, ration.ErrUnavailable)
	require.False(t, c.decision.Allowed)
	require.Zero(t, c.decision.Granted)
}

// requireInTime holds that calls of a timeout ended when it was over, as far as a busy machine lets goroutines run: half of them
// before `half`; nearly all before `late`, which is when they would come back had they waited for something else; and each within
// the slack of such a machine.
func requireInTime(t *testing.T, calls []timedCall, timeout, half, late time.Duration) {
	t.Helper()
	took := logTimes(t, calls)
	n := len(took)
	require.Less(t, took[n/2], half)
	require.Less(t, took[n-1-n/20], late)
	require.Less(t, took[n-1], timeout+hangSlack)
}

// logTimes answers the times that calls took, the shortest first.
func logTimes(t *testing.T, calls []timedCall) []time.Duration {
	t.Helper()
	var took []time.Duration
	for _, c := range calls {
		took = append(took, c.took)
	}
	slices.Sort(took)
	n := len(took)
	t.Logf("calls took %v to %v, half of them %v, all but a twentieth %v", took[0], took[n-1], took[n/2], took[n-1-n/20])
	return took
}
