package replay

import (
	"context"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/virtual"
)

// Decide decides all requests under a plan, by the scripts that a real Redis runs, each at its time. It calls onDecision
// after each, from several goroutines at once.
func (t *Traffic) Decide(ctx context.Context, plan ration.Plan, onDecision func()) (Outcome, error) {
	denied := make([][]int64, len(t.keys))
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), len(t.keys)) {
		group.Go(func() error {
			limiter, err := virtual.New(plan)
			if err != nil {
				return err
			}
			defer limiter.Close()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(t.keys) {
					return nil
				}
				if denied[i], err = decide(ctx, limiter, t.keys[i], onDecision); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return Outcome{}, err
	}
	return newOutcome(plan, t.keys, denied), nil
}

// decide decides the requests of a key, and gives the times of those denied. Nothing is left of the key before, whose time
// may have been later.
func decide(ctx context.Context, limiter *virtual.Limiter, a arrivals, onDecision func()) (denied []int64, err error) {
	limiter.Forget()
	key := ration.Key(a.key)
	for _, second := range a.seconds {
		allowed, err := limiter.AllowAt(ctx, at(second), key, 1)
		if err != nil {
			return nil, err
		}
		if !allowed {
			denied = append(denied, second)
		}
		onDecision()
	}
	return denied, nil
}
