package integration

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/conformance"
)

// TestModel compares the scripts, as every server runs them, with the exact model, on the same operations at random, to the
// microsecond of the server's clock. That is the proof of the scripts' arithmetic: what numbers a Lua holds, and how a command
// reads them, differs between these servers and those that only imitate them.
//
// The hundred checks of each kind that rapid does by itself come to some 45,000 operations on the three servers; the flag
// -rapid.checks takes another number.
func TestModel(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s, clock := startServerWithClock(t, image, conformance.T0)
		rdb := s.newRedis(t, nil)
		rdb.AddHook(countHook{})
		conformance.RunRandom(t, &randomBackend{serverBackend{redis: rdb, clock: clock}}, nil)
	})
}

// randomBackend makes each limiter on a Client of its own, for there are thousands, and a Client remembers every one.
type randomBackend struct{ serverBackend }

func (b *randomBackend) Limiter(t *testing.T, _ string, plan ration.Plan) conformance.Limiter {
	t.Helper()
	limiter := newLimiter(t, b.redis, plan)
	switch plan.(type) {
	case ration.GCRA, ration.MultiPlan:
		return limiter // whose script for one request takes no count, or finds it elsewhere
	default:
		return countingLimiter{limiter}
	}
}

// countingLimiter decides several requests in one call of the take script, which nothing that is exported does.
type countingLimiter struct{ *ration.Limiter }

func (l countingLimiter) TakeCount(
	ctx context.Context, key string, plan ration.Plan, cost, count int64,
) (ration.Decision, error) {
	c := &counted{count: count}
	d, err := l.Take(context.WithValue(ctx, countKey{}, c), ration.Request{Key: key, Cost: cost, Plan: plan})
	d.Granted = c.granted * cost
	return d, err
}

// GivesCountsBack is false: the Limiter knows of one request.
func (countingLimiter) GivesCountsBack() bool { return false }

// counted is the number of requests in a call, in the context of its command, and how many of them the script granted.
type counted struct{ count, granted int64 }

type countKey struct{}

// countHook puts the count of a call in the place of the count of 1 that a Limiter asks for, and has it know of one grant
// at most.
type countHook struct{}

func (countHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (countHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (countHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c, found := ctx.Value(countKey{}).(*counted)
		if name := cmd.Name(); !found || name != "evalsha" && name != "eval" { // but what makes a connection ready
			return next(ctx, cmd)
		}
		const count = 5 // EVALSHA digest 1 key cost count
		cmd.Args()[count] = c.count
		err := next(ctx, cmd)
		if reply, ok := cmd.(interface{ Val() []int64 }); ok && err == nil {
			c.granted = reply.Val()[0]
			reply.Val()[0] = min(c.granted, 1)
		}
		return err
	}
}
