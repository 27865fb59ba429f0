package ration_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/conformance"
	"github.com/go-ration/ration/internal/testclock"
)

func TestConformanceOnMiniredis(t *testing.T) {
	t.Parallel()
	conformance.Run(t, newMiniredisBackend(t, ration.WithDenyCache(0)))
}

// The script of several plans does for one what the script of that does.
func TestConformanceWithDenyCache(t *testing.T) {
	t.Parallel()
	conformance.Run(t, newMiniredisBackend(t, ration.WithDenyCache(time.Hour)))
}

func TestConformanceInMultiPlan(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.InMultiPlan(newMiniredisBackend(t, ration.WithDenyCache(0))))
}

func TestConformanceOfMultiPlan(t *testing.T) {
	t.Parallel()
	conformance.RunMulti(t, newMiniredisBackend(t, ration.WithDenyCache(0)))
}

func TestConformanceOfTwins(t *testing.T) {
	t.Parallel()
	conformance.Run(t, &twinBackend{})
}

// miniredisBackend runs the scripts in miniredis, whose lifetimes of keys never go back.
type miniredisBackend struct {
	server *miniredis.Miniredis
	redis  *redis.Client
	client *ration.Client
	now    atomic.Pointer[time.Time]
}

func newMiniredisBackend(t *testing.T, options ...ration.ClientOption) *miniredisBackend {
	t.Helper()
	server := miniredis.NewMiniRedis()
	server.SetTime(conformance.T0)
	server.ClockTTL(true)
	require.NoError(t, server.Start())
	t.Cleanup(server.Close)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	b := &miniredisBackend{server: server, redis: rdb}
	b.SetTime(conformance.T0)
	t.Cleanup(testclock.Set(rdb, func() time.Time { return *b.now.Load() }))
	client, err := ration.New(rdb, append([]ration.ClientOption{ration.WithTimeout(10 * time.Second), withoutBeats}, options...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	b.client = client
	return b
}

func (b *miniredisBackend) SetTime(now time.Time) {
	b.now.Store(&now)
	b.server.SetTime(now)
}

func (b *miniredisBackend) Redis() redis.UniversalClient { return b.redis }
func (b *miniredisBackend) StepsBack() bool              { return false }

func (b *miniredisBackend) Limiter(t *testing.T, name string, plan ration.Plan) conformance.Limiter {
	t.Helper()
	limiter, err := b.client.Limiter(name, plan)
	require.NoError(t, err)
	return limiter
}

// twinBackend runs the twins, with the checks of a request that a Limiter makes.
type twinBackend struct {
	now time.Time
}

func (b *twinBackend) SetTime(now time.Time)        { b.now = now }
func (b *twinBackend) Redis() redis.UniversalClient { return nil }
func (b *twinBackend) StepsBack() bool              { return true }

func (b *twinBackend) Limiter(t *testing.T, _ string, plan ration.Plan) conformance.Limiter {
	t.Helper()
	return &twinLimiter{t: t, backend: b, plan: plan, twins: make(map[string]*ration.Twin)}
}

type twinLimiter struct {
	t       *testing.T
	backend *twinBackend
	plan    ration.Plan
	twins   map[string]*ration.Twin
}

func (l *twinLimiter) twin(key string) *ration.Twin {
	if l.twins[key] == nil {
		twin, err := ration.NewTwin(l.plan)
		require.NoError(l.t, err)
		l.twins[key] = twin
	}
	return l.twins[key]
}

func (l *twinLimiter) Take(_ context.Context, r ration.Request) (ration.Decision, error) {
	switch {
	case r.Cost < 0:
		return ration.Decision{}, ration.ErrInvalidCost
	case r.Cost > l.twin(r.Key).Limit():
		return ration.Decision{}, ration.ErrCostExceedsLimit
	}
	return l.twin(r.Key).TakeAt(l.backend.now.UnixMicro(), r.Cost, 1, false), nil
}

func (l *twinLimiter) AllowUpTo(_ context.Context, key string, n int64) (ration.Decision, error) {
	cost, count := int64(1), min(n, l.twin(key).Limit())
	if n == 0 {
		cost, count = 0, 1
	}
	return l.twin(key).TakeAt(l.backend.now.UnixMicro(), cost, count, true), nil
}

func (l *twinLimiter) Peek(_ context.Context, key string) (ration.Decision, error) {
	return l.twin(key).PeekAt(l.backend.now.UnixMicro()), nil
}

func (l *twinLimiter) Refund(_ context.Context, d ration.Decision) error {
	require.Len(l.t, l.twins, 1) // a scenario has one key
	for _, twin := range l.twins {
		twin.RefundAt(l.backend.now.UnixMicro(), d)
	}
	return nil
}
