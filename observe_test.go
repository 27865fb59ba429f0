package ration_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// recorder is an Observer that remembers.
type recorder struct {
	mu        sync.Mutex
	decisions []ration.ObservedDecision
	breakers  []ration.ObservedBreaker
	then      func() // of a breaker that changed
}

func (r *recorder) ObserveDecision(ctx context.Context, o ration.ObservedDecision) {
	if ctx == nil {
		panic("no context")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decisions = append(r.decisions, o)
}

func (r *recorder) ObserveBreaker(o ration.ObservedBreaker) {
	r.mu.Lock()
	r.breakers = append(r.breakers, o)
	r.mu.Unlock()
	if r.then != nil {
		r.then()
	}
}

// last is the decision told of last, and how many there were; those before are forgotten.
func (r *recorder) last(t *testing.T) (ration.ObservedDecision, int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(t, r.decisions)
	last, n := r.decisions[len(r.decisions)-1], len(r.decisions)
	r.decisions = nil
	return last, n
}

// Every decision is told of, whoever makes it, with how long it took; the key only if asked.
func TestObserver(t *testing.T) {
	t.Parallel()
	for source, policy := range map[ration.Source]ration.FailurePolicy{
		ration.SourceLocal:      ration.FailLocal(),
		ration.SourceFailOpen:   ration.FailOpen(),
		ration.SourceFailClosed: ration.FailClosed(),
		ration.SourceFailFunc: ration.FailFunc(func(context.Context, ration.Request, error) ration.Decision {
			return ration.Decision{Allowed: true}
		}),
	} {
		for _, withKeys := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var r recorder
				options := []ration.ClientOption{ration.WithObserver(&r), neverOpen, ration.OnFailure(policy), silent}
				key := ""
				if withKeys {
					options, key = append(options, ration.WithObservedKeys()), "key"
				}
				plan := ration.FixedWindow{Limit: 5, Window: time.Hour}
				o := newOutage(t, plan, 1, options...)
				o.Delay(3 * time.Millisecond)
				l := o.limiters[0]
				require2 := func(cost int64, source ration.Source, latency time.Duration, d ration.Decision, err error) {
					t.Helper()
					require.NoError(t, err)
					seen, n := r.last(t)
					require.Equal(t, 1, n)
					require.Equal(t, "search", seen.Limiter)
					require.Equal(t, key, seen.Key)
					require.Equal(t, cost, seen.Cost)
					require.Equal(t, source, seen.Decision.Source)
					require.Equal(t, d, seen.Decision)
					require.Equal(t, latency, seen.Latency)
				}
				d, err := l.AllowN(t.Context(), "key", 2)
				require2(2, ration.SourceRedis, 3*time.Millisecond, d, err)
				d, err = l.AllowUpTo(nil, "key", 4) //nolint:staticcheck // a nil context is passed on as one that is not
				require2(4, ration.SourceRedis, 3*time.Millisecond, d, err)
				d, err = l.Allow(t.Context(), "key")
				require.False(t, d.Allowed)
				require2(1, ration.SourceRedis, 3*time.Millisecond, d, err)
				d, err = l.Peek(t.Context(), "key")
				require2(0, ration.SourceRedis, 3*time.Millisecond, d, err)
				d, err = l.Allow(t.Context(), "key")
				require2(1, ration.SourceDenyCache, 0, d, err)
				time.Sleep(time.Second)
				o.Refuse()
				d, err = l.AllowN(t.Context(), "key", 2)
				require2(2, source, 0, d, err)
				require.ErrorIs(t, d.Cause, ration.ErrUnavailable)
				o.Hang()
				d, err = l.Allow(t.Context(), "key")
				require2(1, source, 10*time.Millisecond, d, err)
				require.ErrorIs(t, d.Cause, ration.ErrTimeout)

				_, err = l.AllowN(t.Context(), "key", 6)
				require.ErrorIs(t, err, ration.ErrCostExceedsLimit)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_, err = l.Allow(ctx, "key")
				require.ErrorIs(t, err, context.Canceled)
				require.Empty(t, r.decisions, "errors are no decisions")
			})
		}
	}
}

// What several calls decide is one decision; what several limiters decide is as many.
func TestObserverOfShardsAndChains(t *testing.T) {
	t.Parallel()
	var r recorder
	server := rationtest.New(t, ration.WithObserver(&r))
	hot, err := server.Client.Limiter("hot", perMinute(100), ration.WithShards(2))
	require.NoError(t, err)
	for range 100 {
		_, err := hot.Allow(t.Context(), "key")
		require.NoError(t, err)
	}
	d, err := hot.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.False(t, d.Allowed)
	_, err = hot.Peek(t.Context(), "key")
	require.NoError(t, err)
	_, n := r.last(t)
	require.Equal(t, 102, n)

	cold, err := server.Client.Limiter("cold", perMinute(100))
	require.NoError(t, err)
	chain, err := ration.Chain(cold, hot)
	require.NoError(t, err)
	_, err = chain.Allow(t.Context(), "key")
	require.NoError(t, err)
	seen, n := r.last(t)
	require.Equal(t, 2, n)
	require.Equal(t, "hot", seen.Limiter)
	require.False(t, seen.Decision.Allowed)
	decisions := server.Client.Stats().Decisions
	decisions[ration.SourceRedis] += decisions[ration.SourceDenyCache] // by chance, for the shards that are asked are
	delete(decisions, ration.SourceDenyCache)
	require.Equal(t, map[ration.Source]int64{
		ration.SourceRedis: 104, ration.SourceLease: 0, ration.SourceLocal: 0, ration.SourceFailOpen: 0, ration.SourceFailClosed: 0, ration.SourceFailFunc: 0,
	}, decisions)
	require.EqualValues(t, 1, server.Client.Stats().Refunds)
}

// Breakers that change are told of in order; by then the Client may be used.
func TestBreakerObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		o := newOutage(t, hourly, 1, ration.WithObserver(&r), silent)
		r.then = func() {
			if d := o.allow(t, 0, "other"); len(r.breakers)%2 == 1 {
				require.ErrorIs(t, d.Cause, ration.ErrBreakerOpen)
			}
		}
		for i := range 3 {
			require.Equal(t, ration.SourceRedis, o.allow(t, 0, "key").Source)
			o.Hang()
			time.Sleep(time.Second) // a beat may be what opens it
			for range 5 {
				o.allow(t, 0, "key")
			}
			require.EqualValues(t, 1, o.clients[0].Stats().BreakersOpen)
			time.Sleep(time.Minute)
			o.Return()
			time.Sleep(5 * time.Second)
			o.allow(t, 0, "key")
			require.EqualValues(t, 0, o.clients[0].Stats().BreakersOpen)
			require.EqualValues(t, 2*(i+1), o.clients[0].Stats().BreakerChanges)
		}
		require.Len(t, r.breakers, 6)
		for i, b := range r.breakers {
			require.Equal(t, i%2 == 0, b.Open)
			require.Equal(t, "127.0.0.1:1", b.Node)
			if b.Open {
				require.ErrorIs(t, b.Cause, ration.ErrTimeout)
				require.Zero(t, b.After)
			} else {
				require.NoError(t, b.Cause)
				require.InDelta(t, time.Minute, b.After, float64(3*time.Second))
			}
		}
	})
}

type panicking struct{}

func (panicking) ObserveDecision(context.Context, ration.ObservedDecision) { panic("in an observer") }

func (panicking) ObserveBreaker(ration.ObservedBreaker) { panic("in an observer") }

// A panic of an observer goes no further, and the other observers are told.
func TestPanicInAnObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		log, logger := newLog()
		o := newOutage(t, hourly, 1, ration.WithObserver(panicking{}), ration.WithObserver(&r), ration.WithLogger(logger))
		o.Hang()
		for range 10 {
			o.allow(t, 0, "key")
		}
		require.Len(t, r.decisions, 10)
		require.Len(t, r.breakers, 1)
		require.Len(t, log.lines("ration: an observer panicked"), 5)
	})
}

func TestObserversRefused(t *testing.T) {
	t.Parallel()
	for _, option := range []ration.ClientOption{ration.WithObserver(nil), ration.WithLogger(nil)} {
		rdb, _ := countingRedis(t)
		_, err := ration.New(rdb, option)
		require.ErrorIs(t, err, ration.ErrInvalidOption)
	}
}

// seriesOf is an Observer that counts as an exporter of metrics does: a series for each set of labels.
type seriesOf struct {
	mu     sync.Mutex
	counts map[[4]string]int
}

func (s *seriesOf) ObserveDecision(_ context.Context, o ration.ObservedDecision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Key != "" {
		panic("the key is told, and nobody asked for it")
	}
	s.counts[[4]string{o.Limiter, o.Decision.Plan, string(o.Decision.Source), fmt.Sprint(o.Decision.Allowed)}]++
}

// What an observer is told makes no series for each subject: B91.
func TestSeriesOfB91(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	series := &seriesOf{counts: make(map[[4]string]int)}
	client, err := ration.New(server.NewRedis(t), ration.WithObserver(series), silent, ration.WithTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("login", ration.FixedWindow{Limit: 3, Window: time.Hour})
	require.NoError(t, err)
	take := func(subjects int) (seriesThen int) {
		for i := range subjects {
			for _, n := range []int64{2, 2, 2} { // granted, denied by Redis, denied by memory
				_, err := limiter.AllowN(t.Context(), fmt.Sprintf("subject:%d:%d", subjects, i), n)
				require.NoError(t, err)
			}
		}
		series.mu.Lock()
		defer series.mu.Unlock()
		return len(series.counts)
	}
	few := take(10)
	require.Equal(t, 3, few)
	require.Equal(t, few, take(10_000))
	for labels, n := range series.counts {
		require.Equal(t, 10_010, n, "%v", labels)
	}
}
