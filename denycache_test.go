package ration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// remembering is a limiter on a server whose script calls are counted.
func remembering(t *testing.T, plan ration.Plan, options ...ration.LimiterOption) (*sharing, *ration.Limiter) {
	t.Helper()
	s := newSharing(t, plan)
	limiter, err := s.client.Limiter("remembering", plan, options...)
	require.NoError(t, err)
	return s, limiter
}

// calls are the script calls that something takes.
func (s *sharing) calls(do func()) int {
	before, _ := s.scripts()
	do()
	after, _ := s.scripts()
	return after - before
}

func take(t *testing.T, l *ration.Limiter, r ration.Request) ration.Decision {
	t.Helper()
	d, err := l.Take(t.Context(), r)
	require.NoError(t, err)
	return d
}

// While a denial holds, Redis is not asked; when it is over, it is.
func TestDenialsAreRemembered(t *testing.T) {
	t.Parallel()
	for _, plan := range sharedPlans {
		t.Run(plan.String(), func(t *testing.T) {
			t.Parallel()
			s, l := remembering(t, plan, ration.WithDenyCache(time.Hour))
			one := ration.Request{Key: "key", Cost: 1}
			for range 10 {
				require.True(t, take(t, l, one).Allowed)
			}
			first := take(t, l, one)
			require.Equal(t, ration.SourceRedis, first.Source)
			require.False(t, first.Allowed)
			require.Zero(t, s.calls(func() {
				for _, cost := range []int64{1, 1, 3, 10} {
					d := take(t, l, ration.Request{Key: "key", Cost: cost})
					require.False(t, d.Allowed)
					require.Equal(t, ration.SourceDenyCache, d.Source)
				}
				d, err := l.AllowUpTo(t.Context(), "key", 5)
				require.NoError(t, err)
				require.Equal(t, ration.SourceDenyCache, d.Source)
				require.False(t, d.Allowed)
				s.Advance(first.RetryAfter - time.Microsecond)
				d = take(t, l, one)
				require.Equal(t, time.Microsecond, d.RetryAfter)
				want := ration.WithoutReceipt(first)
				want.Source, want.RetryAfter, want.ResetAfter = d.Source, d.RetryAfter, first.ResetAfter-first.RetryAfter+time.Microsecond
				if want.Plans == nil {
					require.Equal(t, want, d)
				}
			}))
			require.NotZero(t, s.calls(func() { require.True(t, take(t, l, ration.Request{Key: "key"}).Allowed, "a look") }))
			require.Equal(t, 1, s.calls(func() { take(t, l, ration.Request{Key: "other", Cost: 1}) }), "another key")
			s.Advance(time.Microsecond)
			require.Equal(t, 1, s.calls(func() { require.True(t, take(t, l, one).Allowed) }))
		})
	}
}

// A denial is remembered under the plan that denied, and not for lesser costs.
func TestDenialsOfB83(t *testing.T) {
	t.Parallel()
	window := func(limit int64) ration.Plan { return ration.FixedWindow{Limit: limit, Window: time.Minute} }
	limit := int64(5)
	s, l := remembering(t, window(5), ration.WithPlanFor(func(string) (ration.Plan, bool) { return window(limit), true }))
	for i := range 7 {
		require.Equal(t, i < 5, take(t, l, ration.Request{Key: "key", Cost: 1}).Allowed)
	}
	d := take(t, l, ration.Request{Key: "key", Cost: 1, Plan: window(50)})
	require.True(t, d.Allowed)
	require.EqualValues(t, 44, d.Remaining)
	require.False(t, take(t, l, ration.Request{Key: "key", Cost: 1}).Allowed)
	limit = 50
	d = take(t, l, ration.Request{Key: "key", Cost: 1})
	require.True(t, d.Allowed)
	require.EqualValues(t, 43, d.Remaining)

	limit = 5
	for _, step := range []struct {
		cost    int64
		allowed bool
		source  ration.Source
	}{
		{3, true, ration.SourceRedis},
		{5, false, ration.SourceRedis},
		{5, false, ration.SourceDenyCache},
		{1, true, ration.SourceRedis},
		{5, false, ration.SourceRedis}, // for what was taken since may make the wait longer
		{4, false, ration.SourceRedis},
		{5, false, ration.SourceDenyCache},
		{2, false, ration.SourceRedis},
		{4, false, ration.SourceDenyCache},
		{1, true, ration.SourceRedis},
		{1, false, ration.SourceRedis},
	} {
		d := take(t, l, ration.Request{Key: "costs", Cost: step.cost})
		require.Equal(t, step.allowed, d.Allowed, "%+v", step)
		require.Equal(t, step.source, d.Source, "%+v", step)
	}
	require.NoError(t, l.Reset(t.Context(), "costs"))
	require.True(t, take(t, l, ration.Request{Key: "costs", Cost: 5}).Allowed)
	s.Advance(time.Minute)
	require.True(t, take(t, l, ration.Request{Key: "costs", Cost: 5}).Allowed)
}

// What is given back in this process ends the denials of its keys, also where others were denied for it.
func TestRefundsEndDenials(t *testing.T) {
	t.Parallel()
	_, l := remembering(t, ration.MultiPlan{
		{Name: "user", Plan: ration.FixedWindow{Limit: 100, Window: time.Minute}},
		{Name: "tenant", Plan: ration.FixedWindow{Limit: 10, Window: time.Minute}, Scope: ration.PerTag},
	})
	seventh := take(t, l, ration.Request{Key: "{acme}:user:7", Cost: 10})
	require.True(t, seventh.Allowed)
	eighth := ration.Request{Key: "{acme}:user:8", Cost: 1}
	require.Equal(t, ration.SourceRedis, take(t, l, eighth).Source)
	require.Equal(t, ration.SourceDenyCache, take(t, l, eighth).Source)
	require.NoError(t, l.Refund(t.Context(), seventh))
	require.True(t, take(t, l, eighth).Allowed)
}

// Another plan for the key ends a denial also where a part of it has its numbers in its stored key.
func TestAnotherPlanEndsDenialsOfMultiPlan(t *testing.T) {
	t.Parallel()
	plan := func(burst, perHour int64) ration.Plan {
		return ration.MultiPlan{
			{Name: "gcra", Plan: ration.GCRA{Rate: ration.PerSecond(1000), Burst: burst}},
			{Name: "bucket", Plan: ration.TokenBucket{Rate: ration.PerHour(perHour), Burst: perHour}},
		}
	}
	s, l := remembering(t, plan(1000, 1))
	first, other := ration.Request{Key: "key", Cost: 1}, ration.Request{Key: "key", Cost: 1, Plan: plan(2000, 3_600_000)}
	require.True(t, take(t, l, first).Allowed)
	require.False(t, take(t, l, first).Allowed)
	take(t, l, other)
	s.Advance(50 * time.Millisecond)
	require.True(t, take(t, l, other).Allowed)
	require.True(t, take(t, l, first).Allowed)
}

// A denial that was on its way while something was given back is not remembered.
func TestDenialBesideARefund(t *testing.T) {
	t.Parallel()
	s := newSharing(t, ration.FixedWindow{Limit: 1, Window: time.Minute})
	granted := take(t, s.limiter, ration.Request{Key: "key", Cost: 1})
	slow := &slowReply{entered: make(chan struct{}), release: make(chan struct{})}
	rdb := s.NewRedis(t)
	rdb.AddHook(slow)
	client, err := ration.New(rdb, ration.WithTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	l, err := client.Limiter("search", ration.FixedWindow{Limit: 1, Window: time.Minute})
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		d, err := l.Allow(t.Context(), "key")
		if err != nil || d.Allowed {
			t.Error(d, err)
		}
	})
	<-slow.entered
	require.NoError(t, l.Refund(t.Context(), ration.ByLimiter(granted, l)))
	close(slow.release)
	all.Wait()
	require.True(t, take(t, l, ration.Request{Key: "key", Cost: 1}).Allowed)
}

// slowReply keeps the first reply until it is released.
type slowReply struct {
	entered, release chan struct{}
	isLater          atomic.Bool
}

func (*slowReply) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *slowReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		isOfKey := cmd.Name() == "evalsha" && strings.Contains(asText(cmd.Args()[3]), "{key}") // and no beat of the fleet
		if isOfKey && h.isLater.CompareAndSwap(false, true) {
			h.entered <- struct{}{}
			<-h.release
		}
		return err
	}
}

func (*slowReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Denials are remembered for a second, or as long as an option says, and not where they count.
func TestWithDenyCache(t *testing.T) {
	t.Parallel()
	for _, longest := range []time.Duration{-1, time.Hour + 1} {
		_, err := rationtest.New(t).Client.Limiter("search", hourly, ration.WithDenyCache(longest))
		require.ErrorIs(t, err, ration.ErrInvalidOption)
	}
	one := ration.Request{Key: "key", Cost: 1}
	for _, c := range []struct {
		options []ration.LimiterOption
		plan    ration.Plan
		holds   time.Duration
	}{
		{nil, ration.FixedWindow{Limit: 1, Window: time.Minute}, time.Second},
		{nil, ration.FixedWindow{Limit: 1, Window: time.Minute, RestartOnDeny: true}, 0},
		{[]ration.LimiterOption{ration.WithDenyCache(0)}, ration.FixedWindow{Limit: 1, Window: time.Minute}, 0},
		{[]ration.LimiterOption{ration.WithDenyCache(10 * time.Second)}, ration.FixedWindow{Limit: 1, Window: time.Minute}, 10 * time.Second},
	} {
		s, l := remembering(t, c.plan, c.options...)
		take(t, l, one)
		require.False(t, take(t, l, one).Allowed)
		if c.holds > 0 {
			s.Advance(c.holds - time.Microsecond)
			require.Equal(t, ration.SourceDenyCache, take(t, l, one).Source)
			s.Advance(time.Microsecond)
		}
		require.Equal(t, ration.SourceRedis, take(t, l, one).Source)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, l := remembering(t, ration.FixedWindow{Limit: 1, Window: time.Minute})
	take(t, l, one)
	take(t, l, one)
	_, err := l.Take(ctx, one)
	require.ErrorIs(t, err, context.Canceled, "the end of the context comes first")
}

// However many keys are denied, a bounded number of denials is remembered; in the end none.
//
//nolint:paralleltest // measures the heap
func TestRememberedDenialsAreBoundedOfB87(t *testing.T) {
	const most, keys = 10_000, 1_000_000
	server := rationtest.New(t)
	client, err := ration.New(server.NewRedis(t))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	plan := ration.GCRA{Rate: ration.PerSecond(1), Burst: 1}
	before := heap()
	for i := range keys {
		if err := ration.RememberDenial(client, fmt.Sprintf("key:%d", i), plan, time.Second); err != nil {
			t.Fatal(err)
		}
		if i%100_000 == 0 {
			require.LessOrEqual(t, ration.RememberedDenials(client), most)
		}
	}
	require.InDelta(t, most, ration.RememberedDenials(client), most/10)
	perKey := float64(heap()-before) / most
	t.Logf("%.0f bytes for each denial", perKey)
	require.Less(t, perKey, 300.0)
	server.Advance(time.Second)
	require.Zero(t, ration.RememberedDenials(client))
}

// Whatever is asked, given back and changed, a limiter that remembers decides as one that does not.
func TestRememberingChangesNothing(t *testing.T) {
	t.Parallel()
	for _, plan := range sharedPlans {
		t.Run(plan.String(), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			server := rationtest.New(t, withoutBeats)
			remembers, err := server.Client.Limiter("remembers", plan, ration.WithDenyCache(time.Hour))
			require.NoError(t, err)
			asks, err := server.Client.Limiter("asks", plan, ration.WithDenyCache(0))
			require.NoError(t, err)
			precision := time.Duration(0)
			_, isLog := plan.(ration.SlidingLog)
			if _, isWindow := plan.(ration.FixedWindow); isWindow {
				precision = time.Millisecond
			}
			if all, isMulti := plan.(ration.MultiPlan); isMulti {
				_, isLog = all[0].Plan.(ration.SlidingLog)
				precision = time.Millisecond
			}
			var granted [2][]ration.Decision
			remembered := 0
			for i := range 3000 {
				key, cost := fmt.Sprintf("key:%d", random.IntN(2)), 1+random.Int64N(10)
				if random.IntN(3) == 0 {
					cost = 1
				}
				switch random.IntN(20) {
				case 0, 1, 2:
					server.Advance(time.Duration(random.Int64N(int64(2 * time.Second))))
				case 3:
					server.Advance(time.Duration(random.Int64N(int64(time.Minute))))
				case 4:
					if n := len(granted[0]); n > 0 {
						nth := random.IntN(n)
						require.NoError(t, remembers.Refund(t.Context(), granted[0][nth]))
						require.NoError(t, asks.Refund(t.Context(), granted[1][nth]))
						for j := range granted {
							granted[j] = append(granted[j][:nth:nth], granted[j][nth+1:]...)
						}
					}
				case 5:
					require.NoError(t, remembers.Reset(t.Context(), key))
					require.NoError(t, asks.Reset(t.Context(), key))
				}
				var got, want ration.Decision
				if random.IntN(5) == 0 {
					got, err = remembers.AllowUpTo(t.Context(), key, cost)
					require.NoError(t, err)
					want, err = asks.AllowUpTo(t.Context(), key, cost)
				} else {
					got, err = remembers.AllowN(t.Context(), key, cost)
					require.NoError(t, err)
					want, err = asks.AllowN(t.Context(), key, cost)
				}
				require.NoError(t, err)
				require.Equal(t, want.Granted, got.Granted, "step %d, seed %d: %+v, %+v", i, seed, want, got)
				require.Equal(t, want.Allowed, got.Allowed)
				if got.Source != ration.SourceDenyCache {
					require.Equal(t, want.RetryAfter, got.RetryAfter, "step %d, seed %d", i, seed)
				} else {
					remembered++
					require.LessOrEqual(t, got.Remaining, want.Remaining, "step %d, seed %d", i, seed)
					require.LessOrEqual(t, got.RetryAfter, want.RetryAfter+precision, "step %d, seed %d", i, seed)
					if !isLog {
						require.GreaterOrEqual(t, got.RetryAfter, want.RetryAfter-precision, "step %d, seed %d", i, seed)
					}
				}
				if got.Granted > 0 {
					granted[0], granted[1] = append(granted[0], got), append(granted[1], want)
				}
			}
			require.Greater(t, remembered, 100)
		})
	}
}
