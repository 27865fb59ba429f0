package integration

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// Three Clients with everything that they have, leases, remembered denials and shared calls, under a random load of requests, refunds and
// callers who leave, while Redis stands still, is far away, forgets scripts and loses connections: never is more admitted than the plans
// allow, nothing is admitted that Redis does not know of, and afterwards all is as it was before.
func TestRandomLoadWithFaults(t *testing.T) {
	t.Parallel()
	testRandomLoad(t, 20*time.Second)
}

const (
	loadClients = 3
	loadCallers = 24 // of each Client
	loadKeys    = 40 // of each plan at a time
	loadLimit   = 60
	loadLease   = 20
	loadEpoch   = 2 * time.Second // after which there are other keys
)

// loadPlan is a plan under load, and what it admits of a key at most in a time.
type loadPlan struct {
	plan ration.Plan
	rate float64 // units a second that come back
	held float64 // units that may be admitted later than they were granted, by each Client
}

func loadPlans() []loadPlan {
	const day = 24 * time.Hour
	bucket := ration.PerSecond(10)
	return []loadPlan{
		{plan: ration.FixedWindow{Limit: loadLimit, Window: day}},
		{plan: ration.SlidingWindow{Limit: loadLimit, Window: day}},
		{plan: ration.SlidingLog{Limit: loadLimit, Window: day}},
		{plan: ration.TokenBucket{Rate: bucket, Burst: loadLimit}, rate: 10, held: loadLease},
		{plan: ration.GCRA{Rate: bucket, Burst: loadLimit}, rate: 10, held: loadLease},
		{plan: ration.MultiPlan{
			{Name: "day", Plan: ration.FixedWindow{Limit: loadLimit, Window: day}},
			{Name: "log", Plan: ration.SlidingLog{Limit: 2 * loadLimit, Window: day}},
		}},
	}
}

// loadKey is what came of one key under one plan.
type loadKey struct {
	first              atomic.Int64 // nanoseconds of the load at the first request
	last               atomic.Int64
	admitted, refunded atomic.Int64
}

// randomLoad is a load under way.
type randomLoad struct {
	plans    []loadPlan
	begun    time.Time
	limiters [][]*ration.Limiter // [client][plan]
	keys     []sync.Map          // [plan] of *loadKey by key
	byRedis  atomic.Int64
	failed   atomic.Int64
}

func testRandomLoad(t *testing.T, lasts time.Duration) {
	t.Helper()
	s := startServer(t, redis8)
	road := startRoad(t, s.rdb.Options().Addr)
	l := &randomLoad{plans: loadPlans(), begun: time.Now(), keys: make([]sync.Map, len(loadPlans()))}
	prefix := freshPrefix()
	var clients []*ration.Client
	var rdbs []*redis.Client
	for i := range loadClients {
		rdb := redis.NewClient(&redis.Options{
			Addr: road.addr, ReadTimeout: 500 * time.Millisecond, WriteTimeout: 500 * time.Millisecond, DialTimeout: 500 * time.Millisecond,
		})
		client, err := ration.New(rdb, ration.WithPrefix(prefix), ration.WithTimeout(50*time.Millisecond), ration.OnFailure(ration.FailClosed()),
			ration.WithPrefetch(ration.Prefetch{Max: []int64{loadLease, loadLease, 1}[i], TTL: 200 * time.Millisecond}),
			ration.WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		var limiters []*ration.Limiter
		for j, p := range l.plans {
			limiter, err := client.Limiter(fmt.Sprint("plan-", j), p.plan)
			require.NoError(t, err)
			limiters = append(limiters, limiter)
		}
		clients, rdbs, l.limiters = append(clients, client), append(rdbs, rdb), append(l.limiters, limiters)
	}
	until := l.begun.Add(lasts)
	var callers sync.WaitGroup
	for i := range loadClients {
		for range loadCallers {
			callers.Go(func() { l.ask(t, i, until) })
		}
	}
	faults := haveFaults(t, s, road, until)
	callers.Wait()

	// The faults are over, and every Client is well again.
	for _, client := range clients {
		await(t, "Redis to decide again", func(ctx context.Context) error {
			limiter, err := client.Limiter("afterwards", ration.FixedWindow{Limit: 1000, Window: time.Hour})
			if err != nil {
				return err
			}
			_, err = byRedis(limiter.Allow(ctx, "key"))
			return err
		})
		require.Zero(t, client.Stats().BreakersOpen)
	}
	for i, client := range clients {
		client.Close()
		require.Zero(t, client.Stats().InFlight, "calls in flight")
		require.Zero(t, client.Stats().LeasedUnits, "units held")
		require.NoError(t, rdbs[i].Close())
	}
	l.check(t, newClient(t, s.rdb, ration.WithPrefix(prefix)), loadClients)
	require.Positive(t, l.byRedis.Load())
	require.Positive(t, l.failed.Load(), "no fault was felt")
	t.Logf("%d decisions with an answer, %d without, in %d faults", l.byRedis.Load(), l.failed.Load(), faults.Load())
}

// ask makes requests until a moment.
func (l *randomLoad) ask(t *testing.T, client int, until time.Time) {
	for time.Now().Before(until) {
		plan := rand.IntN(len(l.plans))
		// Some keys are asked for much more often than others.
		key := fmt.Sprintf("%d:%d", time.Since(l.begun)/loadEpoch, int(math.Pow(rand.Float64(), 3)*loadKeys))
		stored, _ := l.keys[plan].LoadOrStore(key, &loadKey{})
		counts := stored.(*loadKey)
		cost := int64(1)
		if rand.IntN(8) == 0 {
			cost = rand.Int64N(4)
		}
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if rand.IntN(16) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(2000))*time.Microsecond)
		}
		counts.first.CompareAndSwap(0, int64(time.Since(l.begun))|1)
		d, err := l.limiters[client][plan].Take(ctx, ration.Request{Key: key, Cost: cost})
		counts.last.Store(int64(time.Since(l.begun)))
		isOver := ctx.Err() != nil
		cancel()
		switch {
		case err != nil && !isOver:
			t.Errorf("an error and no decision: %v", err)
		case err != nil || d.Cause != nil:
			l.failed.Add(1)
			if d.Granted > 0 {
				t.Errorf("granted when Redis did not answer: %v", d)
			}
			time.Sleep(time.Millisecond) // as a service would have something else to do
		default:
			l.byRedis.Add(1)
			counts.admitted.Add(d.Granted)
			if d.Granted > 0 && rand.IntN(20) == 0 {
				counts.refunded.Add(d.Granted)
				_ = l.limiters[client][plan].Refund(context.Background(), d) // which may fail
			}
		}
	}
}

// check holds what was admitted against the plans, and against what Redis knows of.
func (l *randomLoad) check(t *testing.T, client *ration.Client, fleet int) {
	t.Helper()
	for i, p := range l.plans {
		limiter, err := client.Limiter(fmt.Sprint("plan-", i), p.plan)
		require.NoError(t, err)
		checked, full := 0, 0
		l.keys[i].Range(func(key, value any) bool {
			counts := value.(*loadKey)
			span := float64(counts.last.Load()-counts.first.Load()) / float64(time.Second)
			admitted, refunded := float64(counts.admitted.Load()), float64(counts.refunded.Load())
			most := loadLimit + p.rate*span + refunded + float64(fleet)*p.held
			require.LessOrEqual(t, admitted, most, "%v: %v, of which %v may have been given back, in %.3f s", p.plan, key, refunded, span)
			if p.rate == 0 {
				d, err := byRedis(limiter.Peek(t.Context(), key.(string)))
				require.NoError(t, err)
				require.GreaterOrEqual(t, float64(loadLimit-d.Remaining), admitted-refunded, "%v: %v: more was admitted than Redis knows of", p.plan, key)
			}
			checked++
			if admitted-refunded >= loadLimit {
				full++
			}
			return true
		})
		t.Logf("%v: %d keys, %d used up", p.plan, checked, full)
		require.Positive(t, full, "%v: no key came to its limit", p.plan)
	}
}

// haveFaults lets Redis have one fault after the other until a moment, with times of health between them. It answers how many they were.
func haveFaults(t *testing.T, s *server, road *road, until time.Time) *atomic.Int64 {
	t.Helper()
	var faults atomic.Int64
	for time.Now().Before(until) {
		time.Sleep(time.Duration(50+rand.IntN(1500)) * time.Millisecond)
		var lift func()
		switch rand.IntN(7) {
		case 0:
			lift = s.box.pause(t)
		case 1:
			lift = road.delayReplies(t, time.Duration(5+rand.IntN(60))*time.Millisecond)
		case 2:
			lift = road.loseAll(t)
		case 3:
			lift = road.resetAll(t)
		case 4:
			lift = road.refuse(t)
		case 5:
			require.NoError(t, s.rdb.ScriptFlush(t.Context()).Err())
		case 6:
			require.NoError(t, s.rdb.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
		}
		faults.Add(1)
		if lift != nil {
			time.Sleep(time.Duration(20+rand.IntN(1500)) * time.Millisecond)
			lift()
		}
	}
	return &faults
}
