package ration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// gate is a hook that sees the flushes of a redis client, and holds those of keys that begin with "held".
type gate struct {
	mu      sync.Mutex
	flushes [][]redis.Cmder
	flying  int
	most    int
	held    chan struct{} // receives for each flush that is held
	release chan struct{}
}

func newGate() *gate { return &gate{held: make(chan struct{}, 1000), release: make(chan struct{})} }

func (*gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		landed := g.see(ctx, cmd)
		defer landed()
		return next(ctx, cmd)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		landed := g.see(ctx, cmds...)
		defer landed()
		return next(ctx, cmds)
	}
}

func (g *gate) see(ctx context.Context, cmds ...redis.Cmder) (landed func()) {
	if cmds[0].Name() != "evalsha" { // the greeting of a connection
		return func() {}
	}
	g.mu.Lock()
	g.flushes = append(g.flushes, slices.Clone(cmds))
	g.flying++
	g.most = max(g.most, g.flying)
	g.mu.Unlock()
	if len(cmds[0].Args()) > 3 && strings.Contains(asText(cmds[0].Args()[3]), "{held") {
		g.held <- struct{}{}
		select {
		case <-g.release:
		case <-ctx.Done():
		}
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.flying--
	}
}

// scripts are how many script calls came, with the flushes they came in.
func (g *gate) scripts() (calls, flushes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, cmds := range g.flushes {
		flushes++
		calls += len(cmds)
	}
	return calls, flushes
}

// sharing is a limiter whose calls share flushes as a test says.
type sharing struct {
	*gate
	*rationtest.Server
	client  *ration.Client
	limiter *ration.Limiter
	held    sync.WaitGroup
}

func newSharing(t *testing.T, plan ration.Plan, options ...ration.ClientOption) *sharing {
	t.Helper()
	s := &sharing{gate: newGate(), Server: rationtest.New(t)}
	rdb := s.NewRedis(t)
	rdb.AddHook(s.gate)
	var err error
	s.client, err = ration.New(rdb, append([]ration.ClientOption{ration.WithTimeout(time.Minute), silent, neverOpen}, options...)...)
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	s.limiter, err = s.client.Limiter("search", plan)
	require.NoError(t, err)
	for _, script := range ration.Scripts() {
		require.NoError(t, rdb.ScriptLoad(t.Context(), script.Source).Err())
	}
	_, err = s.limiter.Allow(t.Context(), "warm") // so that it has told its fleet that it is there
	require.NoError(t, err)
	return s
}

// hold has as many flushes on their way as there may be, and keeps them there until open.
func (s *sharing) hold(t *testing.T) {
	t.Helper()
	for i := range ration.MostFlying {
		s.held.Go(func() {
			if _, err := s.limiter.Allow(t.Context(), fmt.Sprintf("held:%d", i)); err != nil {
				t.Error(err)
			}
		})
		<-s.gate.held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushes = nil
}

// open lets the flushes go that were held.
func (s *sharing) open() {
	close(s.release)
	s.held.Wait()
}

// queue waits until so many calls are in the queue.
func (s *sharing) queue(n int) {
	for ration.Queued(s.client) < n {
		runtime.Gosched()
	}
}

// take decides requests all in one flush, in the order they are given.
func (s *sharing) take(t *testing.T, requests ...ration.Request) []ration.Decision {
	t.Helper()
	s.hold(t)
	decisions := make([]ration.Decision, len(requests))
	var all sync.WaitGroup
	for i, r := range requests {
		all.Go(func() {
			var err error
			if decisions[i], err = s.limiter.Take(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
		s.queue(i + 1)
	}
	s.open()
	all.Wait()
	return decisions
}

// sharedPlans are plans of each kind, with ten units.
var sharedPlans = plansOf(10, ration.PerSecond(3), ration.PerTag)

// plansOf are plans of each kind with n units, and of several.
func plansOf(n int64, rate ration.Rate, scope ration.Scope) []ration.Plan {
	return []ration.Plan{
		ration.FixedWindow{Limit: n, Window: time.Minute},
		ration.FixedWindow{Limit: n, Window: time.Minute, Aligned: true},
		ration.SlidingWindow{Limit: n, Window: time.Minute},
		ration.SlidingLog{Limit: n, Window: time.Minute},
		ration.TokenBucket{Rate: rate, Burst: n},
		ration.GCRA{Rate: rate, Burst: n},
		ration.MultiPlan{
			{Name: "log", Plan: ration.SlidingLog{Limit: n * 6 / 5, Window: time.Minute}},
			{Name: "bucket", Plan: ration.TokenBucket{Rate: rate, Burst: n}},
			{Name: "window", Plan: ration.FixedWindow{Limit: n * 11 / 10, Window: time.Minute}},
			{Name: "gcra", Plan: ration.GCRA{Rate: rate, Burst: n * 13 / 10}},
			{Name: "sliding", Plan: ration.SlidingWindow{Limit: 2 * n, Window: time.Minute}, Scope: scope},
		},
	}
}

// Requests that are granted together are decided as if they had come one by one, and can be given back one by one.
func TestRequestsInOneScriptCall(t *testing.T) {
	t.Parallel()
	for _, plan := range sharedPlans {
		for _, cost := range []int64{0, 1, 3} {
			t.Run(fmt.Sprintf("%v/cost %d", plan, cost), func(t *testing.T) {
				t.Parallel()
				s := newSharing(t, plan)
				alone, err := s.Client.Limiter("alone", plan, ration.WithDenyCache(0))
				require.NoError(t, err)
				const n = 12
				r := ration.Request{Key: "key", Cost: cost}
				together := s.take(t, slices.Repeat([]ration.Request{r}, n)...)
				calls, flushes := s.scripts()
				require.Equal(t, 1, calls, "script calls")
				require.Equal(t, 1, flushes)
				oneByOne := make([]ration.Decision, n)
				for i := range oneByOne {
					oneByOne[i], err = alone.Take(t.Context(), r)
					require.NoError(t, err)
				}
				for i := range together {
					require.Equal(t, withoutReceipt(oneByOne[i]), withoutReceipt(together[i]), "request %d", i)
				}
				// Given back in another order, some twice.
				for _, i := range rand.Perm(n) {
					for range 1 + i%2 {
						if _, isLog := plan.(ration.SlidingLog); !isLog && i%2 == 1 {
							continue // only a log knows its grants
						}
						require.NoError(t, s.limiter.Refund(t.Context(), together[i]))
						require.NoError(t, alone.Refund(t.Context(), oneByOne[i]))
						want, err := alone.Peek(t.Context(), "key")
						require.NoError(t, err)
						got, err := s.limiter.Peek(t.Context(), "key")
						require.NoError(t, err)
						require.Equal(t, want, got, "after the refund of %d", i)
					}
				}
			})
		}
	}
}

func withoutReceipt(d ration.Decision) ration.Decision {
	return ration.WithoutReceipt(d)
}

// Requests for other keys and of other costs travel beside them. Each is decided as if they had come in some order.
func TestRequestsInOneFlush(t *testing.T) {
	t.Parallel()
	for keysPerCall, scriptCalls := range map[int]int{1: 5, 32: 4} {
		s := newSharing(t, ration.FixedWindow{Limit: 10, Window: time.Minute}, ration.WithKeysPerCall(keysPerCall))
		of := func(key string, cost int64) ration.Request { return ration.Request{Key: key, Cost: cost} }
		d := s.take(t, of("a", 1), of("a", 8), of("b", 1), of("a", 1), of("b", 10), of("a", 1), of("c", 0))
		calls, flushes := s.scripts()
		require.Equal(t, 1, flushes)
		require.Equal(t, scriptCalls, calls)
		var allowed []bool
		var remaining []int64
		for _, one := range d {
			allowed, remaining = append(allowed, one.Allowed), append(remaining, one.Remaining)
		}
		require.Equal(t, []bool{true, false, true, true, false, true, true}, allowed)
		require.Equal(t, []int64{9, 7, 9, 8, 9, 7, 10}, remaining)
	}
}

// What is not to be decided together with others is not: a denial that counts, units that fit, keys given for plans.
func TestRequestsThatGoAlone(t *testing.T) {
	t.Parallel()
	s := newSharing(t, ration.FixedWindow{Limit: 2, Window: time.Minute, RestartOnDeny: true})
	s.take(t, slices.Repeat([]ration.Request{{Key: "key", Cost: 1}}, 4)...)
	calls, flushes := s.scripts()
	require.Equal(t, 4, calls)
	require.Equal(t, 1, flushes)

	s = newSharing(t, ration.MultiPlan{{Name: "a", Plan: ration.FixedWindow{Limit: 9, Window: time.Minute}}})
	own := ration.Request{Cost: 1, Keys: map[string]string{"a": "key"}}
	d := s.take(t, own, own)
	calls, _ = s.scripts()
	require.Equal(t, 2, calls)
	require.ElementsMatch(t, []int64{8, 7}, []int64{d[0].Remaining, d[1].Remaining})
}

// A call that its caller took out of the queue is not sent, and charges nothing.
func TestCallerLeavesTheQueue(t *testing.T) {
	t.Parallel()
	s := newSharing(t, ration.FixedWindow{Limit: 10, Window: time.Minute})
	s.hold(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, ctx := range []context.Context{ctx, t.Context()} {
		go func() { ended <- failure(s.limiter.Allow(ctx, "key")) }()
	}
	s.queue(2)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Equal(t, 1, ration.Queued(s.client))
	s.open()
	require.NoError(t, <-ended)
	d, err := s.limiter.Peek(t.Context(), "key")
	require.NoError(t, err)
	require.EqualValues(t, 9, d.Remaining)
}

// The grant of a caller that left while its flush was on its way is that of the next in line; and if there is none, it is given back.
func TestCallerLeavesTheFlush(t *testing.T) {
	t.Parallel()
	for _, waiting := range []int{1, 2, 3} {
		s := newSharing(t, ration.FixedWindow{Limit: 2, Window: time.Minute})
		s.hold(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended, allowed := make(chan error), make(chan bool, 3)
		go func() { ended <- failure(s.limiter.Allow(ctx, "held:together")) }()
		s.queue(1)
		for i := range waiting {
			go func() {
				d, err := s.limiter.Allow(t.Context(), "held:together")
				if err != nil {
					t.Error(err)
				}
				allowed <- d.Allowed
			}()
			s.queue(2 + i)
		}
		for range ration.MostFlying {
			s.release <- struct{}{}
		}
		<-s.gate.held // all are in one flush now
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		s.open()
		granted := 0
		for range waiting {
			if <-allowed {
				granted++
			}
		}
		require.Equal(t, min(waiting, 2), granted)
		s.client.Close() // which waits for what is given back
		d, err := ration.LookAt(s.Server.Client, s.limiter, "held:together")
		require.NoError(t, err)
		require.EqualValues(t, 2-granted, d)
	}
}

// A command that fails fails its own calls.
func TestFailureOfOneCommand(t *testing.T) {
	t.Parallel()
	s := newSharing(t, ration.FixedWindow{Limit: 10, Window: time.Minute}, ration.OnFailure(ration.FailClosed()))
	require.NoError(t, s.NewRedis(t).HSet(t.Context(), s.limiter.StoredKey("broken"), "a", "b").Err())
	d := s.take(t, ration.Request{Key: "a", Cost: 1}, ration.Request{Key: "broken", Cost: 1}, ration.Request{Key: "b", Cost: 1},
		ration.Request{Key: "broken", Cost: 1})
	for i, one := range d {
		if i%2 == 1 {
			require.ErrorIs(t, one.Cause, ration.ErrConfiguration)
			require.ErrorContains(t, one.Cause, "WRONGTYPE")
		} else {
			require.NoError(t, one.Cause)
			require.True(t, one.Allowed)
		}
	}
}

// Scripts that Redis does not know are sent with it, once, and the others of the flush not again.
func TestUnknownScriptsInAFlush(t *testing.T) {
	t.Parallel()
	s := newSharing(t, ration.FixedWindow{Limit: 10, Window: time.Minute})
	other, err := s.client.Limiter("other", ration.GCRA{Rate: ration.PerSecond(1), Burst: 10})
	require.NoError(t, err)
	_, err = other.AllowN(t.Context(), "warm", 2)
	require.NoError(t, err)
	s.hold(t)
	require.NoError(t, s.NewRedis(t).ScriptFlush(t.Context()).Err())
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			limiter := s.limiter
			if i%2 == 0 {
				limiter = other
			}
			d, err := limiter.Allow(t.Context(), fmt.Sprintf("key:%d", i%4))
			if err != nil || !d.Allowed {
				t.Error(d, err)
			}
		})
	}
	s.queue(20)
	s.open()
	all.Wait()
	for i := range 4 {
		limiter := s.limiter
		if i%2 == 0 {
			limiter = other
		}
		d, err := limiter.Peek(t.Context(), fmt.Sprintf("key:%d", i))
		require.NoError(t, err)
		require.EqualValues(t, 5, d.Remaining, "charged once")
	}
}

// Whatever a hook of the user's redis client does with a pipeline, its calls end, and so do later ones.
func TestHookOfAPipeline(t *testing.T) {
	t.Parallel()
	for name, pipeline := range map[string]redis.ProcessPipelineHook{
		"panic":   func(context.Context, []redis.Cmder) error { panic("in a hook") },
		"goexit":  func(context.Context, []redis.Cmder) error { runtime.Goexit(); return nil },
		"error":   func(context.Context, []redis.Cmder) error { return errors.New("in a hook") },
		"swallow": func(context.Context, []redis.Cmder) error { return nil },
		"early": func(_ context.Context, cmds []redis.Cmder) error {
			go func() {
				for _, cmd := range cmds {
					cmd.SetErr(errors.New("late"))
				}
			}()
			return errors.New("in a hook")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSharing(t, ration.FixedWindow{Limit: 10, Window: time.Minute}, ration.OnFailure(ration.FailClosed()))
			rdb := s.NewRedis(t)
			rdb.AddHook(pipelineHook(pipeline))
			rdb.AddHook(s.gate)
			client, err := ration.New(rdb, ration.WithTimeout(time.Minute), silent, neverOpen, ration.OnFailure(ration.FailClosed()))
			require.NoError(t, err)
			t.Cleanup(client.Close)
			s.client = client
			s.limiter, err = client.Limiter("search", ration.FixedWindow{Limit: 10, Window: time.Minute})
			require.NoError(t, err)
			for i, d := range s.take(t, ration.Request{Key: "a", Cost: 1}, ration.Request{Key: "b", Cost: 2}) {
				require.ErrorIs(t, d.Cause, ration.ErrUnavailable, "call %d", i)
				require.False(t, d.Allowed)
			}
			d, err := s.limiter.Allow(t.Context(), "c")
			require.NoError(t, err)
			require.NoError(t, d.Cause)
		})
	}
}

type pipelineHook redis.ProcessPipelineHook

func (pipelineHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (pipelineHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h pipelineHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "evalsha" { // the greeting of a connection
			return next(ctx, cmds)
		}
		return h(ctx, cmds)
	}
}

// Calls do not wait behind flushes that are late: a connection that hangs costs its own calls, and not those of others.
func TestLateFlushes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 1000, Window: time.Hour}, 1, neverOpen, ration.OnFailure(ration.FailClosed()))
		patient, err := o.clients[0].Limiter("patient", ration.FixedWindow{Limit: 1000, Window: time.Hour}, ration.WithTimeout(time.Minute))
		require.NoError(t, err)
		o.Delay(30 * time.Second)
		for i := range ration.MostFlying {
			go func() { _, _ = patient.Allow(t.Context(), fmt.Sprint(i)) }()
		}
		synctest.Wait()
		o.Delay(time.Millisecond)
		began := time.Now()
		d := o.allow(t, 0, "key")
		require.NoError(t, d.Cause)
		require.Equal(t, 6*time.Millisecond, time.Since(began), "half of its timeout, when they are late, and its own flush")
		began = time.Now()
		d = o.allow(t, 0, "key")
		require.NoError(t, d.Cause)
		require.Equal(t, time.Millisecond, time.Since(began))
		_, err = patient.Allow(t.Context(), "key")
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		began = time.Now()
		d, err = patient.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.NoError(t, d.Cause)
		require.Equal(t, time.Millisecond, time.Since(began))
		time.Sleep(time.Minute)
	})
}

// A call does not wait for others like it beside one large flush that hangs, either.
func TestLateFlushOfMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 1000, Window: time.Hour}, 1, neverOpen, ration.OnFailure(ration.FailClosed()))
		patient, err := o.clients[0].Limiter("patient", ration.FixedWindow{Limit: 1000, Window: time.Hour}, ration.WithTimeout(time.Minute))
		require.NoError(t, err)
		o.Delay(30 * time.Second)
		for i := range 50 {
			go func() { _, _ = patient.Allow(t.Context(), fmt.Sprint(i)) }()
		}
		synctest.Wait()
		o.Delay(time.Millisecond)
		began := time.Now()
		d := o.allow(t, 0, "key")
		require.NoError(t, d.Cause)
		require.Equal(t, 6*time.Millisecond, time.Since(began))
		time.Sleep(time.Minute)
	})
}

// Nor does one that was left behind by a flush that began after it came, and hangs.
func TestLeftBehindByALateFlush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := ration.FixedWindow{Limit: 1000, Window: time.Hour}
		o := newOutage(t, plan, 1, neverOpen, ration.OnFailure(ration.FailClosed()), ration.WithMaxInFlight(12), ration.WithTimeout(5*time.Second))
		o.Delay(50 * time.Millisecond)
		for i := range ration.MostFlying + 9 { // the last nine are one flush, once there is a place
			go func() { _, _ = o.limiters[0].Allow(t.Context(), fmt.Sprint(i)) }()
			synctest.Wait()
		}
		var d ration.Decision
		var took time.Duration
		go func() {
			began := time.Now()
			d, _ = o.limiters[0].Allow(t.Context(), "left")
			took = time.Since(began)
		}()
		synctest.Wait()
		o.Delay(30 * time.Second)
		time.Sleep(60 * time.Millisecond)
		o.Delay(time.Millisecond)
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, d.Allowed)
		require.Equal(t, 201*time.Millisecond, took, "twice its patience, and its own flush")
		time.Sleep(time.Minute)
	})
}

// However calls come and go, never are more flushes on their way than there may be, none is left behind in the queue, and nothing is
// charged that nobody was granted.
func TestCallsComeAndGo(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	synctest.Test(t, func(t *testing.T) {
		plan := ration.FixedWindow{Limit: limit, Window: time.Hour}
		o := newOutage(t, plan, 1, ration.WithTimeout(time.Second), ration.OnFailure(ration.FailClosed()))
		o.Delay(time.Millisecond)
		var mu sync.Mutex
		granted := make(map[string]int64)
		var all sync.WaitGroup
		seed := rand.Uint64()
		for i := range 100 {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			all.Go(func() {
				for range 200 {
					time.Sleep(time.Duration(random.IntN(1000)) * time.Microsecond)
					key, cost := fmt.Sprintf("key:%d", random.IntN(4)), 1+random.Int64N(2)
					ctx, cancel := context.WithCancel(context.Background())
					if random.IntN(4) == 0 {
						time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, cancel)
					}
					d, err := o.limiters[0].AllowN(ctx, key, cost)
					cancel()
					if err == nil && d.Source != ration.SourceRedis || err != nil && !errors.Is(err, context.Canceled) {
						t.Error(d, err, seed)
					}
					mu.Lock()
					granted[key] += d.Granted
					mu.Unlock()
				}
			})
		}
		all.Wait()
		require.Zero(t, ration.Queued(o.clients[0]))
		require.Equal(t, ration.MostFlying, o.MostAtOnce())
		time.Sleep(time.Minute) // what nobody was granted is given back
		require.Zero(t, o.clients[0].Stats().InFlight)
		for key, units := range granted {
			d, err := o.limiters[0].Peek(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, limit-units, d.Remaining, "seed %d", seed)
		}
	})
}

// Clients of which it is not known where their calls go send each alone: a server that hangs has none wait that are for others.
func TestCallsOfARingGoAlone(t *testing.T) {
	t.Parallel()
	g, srv := newGate(), rationtest.New(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": srv.NewRedis(t).Options().Addr}})
	t.Cleanup(func() { _ = ring.Close() })
	ring.AddHook(g)
	client, err := ration.New(ring, ration.WithTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("search", ration.FixedWindow{Limit: 100, Window: time.Minute})
	require.NoError(t, err)
	var all sync.WaitGroup
	const calls = 20
	for i := range calls {
		all.Go(func() {
			if _, err := limiter.Allow(t.Context(), fmt.Sprintf("held:%d", i%2)); err != nil {
				t.Error(err)
			}
		})
	}
	for range calls {
		<-g.held
	}
	close(g.release)
	all.Wait()
}

// reloading is a redis client that counts how often it is to look again who serves which keys.
type reloading struct {
	*redis.Client
	looks atomic.Int64
}

func (r *reloading) ReloadState(context.Context) { r.looks.Add(1) }

// A cluster is looked at again after calls without an answer alone.
func TestSlotsAreDoubtedAfterFailuresOnly(t *testing.T) {
	t.Parallel()
	srv := rationtest.New(t)
	rdb := &reloading{Client: srv.NewRedis(t)}
	client, err := ration.New(rdb, ration.WithTimeout(time.Minute), silent, neverOpen, withoutBeats)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("search", hourly)
	require.NoError(t, err)
	for range 10 {
		_, err := limiter.Allow(t.Context(), "key")
		require.NoError(t, err)
	}
	require.Zero(t, rdb.looks.Load())
	rdb.AddHook(hook(func(context.Context, redis.Cmder) error { return errors.New("no connection") }))
	_, err = limiter.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.EqualValues(t, 1, rdb.looks.Load())
}
