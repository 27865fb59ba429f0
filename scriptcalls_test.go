//go:build !race

package ration_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// How many script calls a decision takes, where each takes a millisecond.
//
//nolint:paralleltest // how many share a flush is up to the scheduler, which is to have nothing else to do
func TestScriptCallsPerDecision(t *testing.T) {
	for callers, most := range map[int]float64{1: 1, 4: 1, 64: 0.10, 256: 0.035} {
		synctest.Test(t, func(t *testing.T) {
			plan := ration.FixedWindow{Limit: 1_000_000, Window: time.Hour}
			o := newOutage(t, plan, 1, ration.OnFailure(ration.FailClosed())) // without beats, which are calls too
			o.Delay(time.Millisecond)
			const each = 100
			began := time.Now()
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for range each {
						d, err := o.limiters[0].Allow(t.Context(), "key")
						if err != nil || d.Source != ration.SourceRedis {
							t.Error(d, err)
						}
					}
				})
			}
			all.Wait()
			perDecision := float64(o.Runs("take")) / float64(callers*each)
			took := time.Since(began)
			t.Logf("%d callers: %.3f script calls a decision, %v each", callers, perDecision, took/each)
			require.LessOrEqual(t, perDecision, most)
			d, err := o.limiters[0].Peek(t.Context(), "key")
			require.NoError(t, err)
			require.EqualValues(t, 1_000_000-callers*each, d.Remaining)
			if callers <= ration.MostFlying {
				require.Equal(t, each*time.Millisecond, took, "nobody waits for anybody")
			}
		})
	}
}
