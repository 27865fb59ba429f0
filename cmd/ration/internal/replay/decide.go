package replay

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/embedded"
)

// Decide decides all requests under a plan, by the scripts that a real Redis runs, each at its time. It calls onDecision
// after each, from several goroutines at once.
func (t *Traffic) Decide(ctx context.Context, plan ration.Plan, onDecision func()) (Outcome, error) {
	denied := make([][]int64, len(t.keys))
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), len(t.keys)) {
		group.Go(func() error {
			past, err := newPast(plan)
			if err != nil {
				return err
			}
			defer past.close()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(t.keys) {
					return nil
				}
				if denied[i], err = past.decide(ctx, t.keys[i], onDecision); err != nil {
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

// past is a Redis whose clock is set to the times of a log, with a limiter on it.
type past struct {
	redis   *embedded.Server
	limiter *ration.Limiter
	close   func()
}

func newPast(plan ration.Plan) (*past, error) {
	server := embedded.New()
	rdb := server.NewClient()
	// Nothing is decided late here, but a busy machine may be slow.
	client, err := ration.New(rdb, ration.WithTimeout(time.Minute))
	if err != nil {
		return nil, err
	}
	limiter, err := client.Limiter("replay", plan)
	if err != nil {
		return nil, err
	}
	return &past{redis: server, limiter: limiter, close: func() {
		client.Close()
		_ = rdb.Close()
		server.Close()
	}}, nil
}

// decide decides the requests of a key, and gives the times of those denied. Nothing is left of the key before, whose time
// may have been later.
func (p *past) decide(ctx context.Context, a arrivals, onDecision func()) (denied []int64, err error) {
	p.redis.Flush()
	key := ration.Key(a.key)
	for _, second := range a.seconds {
		p.redis.SetTime(at(second))
		d, err := p.limiter.Allow(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("decide a request of %v: %w", at(second), err)
		}
		if !d.Allowed {
			denied = append(denied, second)
		}
		onDecision()
	}
	return denied, nil
}
