package ration_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/conformance"
)

// The scripts on miniredis, the twins and the model give the same answers to the same requests.
func TestModel(t *testing.T) {
	t.Parallel()
	conformance.RunRandom(t, randomBackend{newMiniredisBackend(t, ration.WithDenyCache(0))}, func(plan ration.Plan) (conformance.Twin, error) {
		return ration.NewTwin(plan)
	})
}

// randomBackend makes limiters by the thousand, which also decide several requests at once.
type randomBackend struct{ *miniredisBackend }

func (b randomBackend) Limiter(t *testing.T, name string, plan ration.Plan) conformance.Limiter {
	t.Helper()
	limiter, err := ration.NewUnregistered(b.client, name, plan)
	require.NoError(t, err)
	return randomLimiter{limiter}
}

type randomLimiter struct{ *ration.Limiter }

func (l randomLimiter) TakeCount(
	ctx context.Context, key string, plan ration.Plan, cost, count int64,
) (ration.Decision, error) {
	return l.Limiter.TakeCount(ctx, key, plan, cost, count)
}

func (randomLimiter) GivesCountsBack() bool { return true }
