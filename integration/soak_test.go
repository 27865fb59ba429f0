//go:build soak

package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/go-ration/ration"
)

// These tests measure times, for which a machine has to be quiet: `make soak` runs them, and nothing beside. None is parallel.

const outageSpan = 10 * time.Second

// paced is a load of callers that do not wait for each other: each asks, waits for a while, and asks again.
type paced struct {
	callers int
	pause   time.Duration // of a caller between two requests
}

// pacedCall is what a request came to. It has no pointers, and room is made for all before the first: what a test keeps of hundreds of
// thousands of calls is not to cost those it times.
type pacedCall struct {
	caller  int
	took    time.Duration
	byRedis bool // decided by Redis
	refused bool // by an open breaker
}

// run runs a load until a moment, and answers its calls in the order in which they ended, of each caller.
func (p paced) run(t *testing.T, limiter *ration.Limiter, key func(caller int) string, until time.Time) []pacedCall {
	t.Helper()
	return p.runCalls(until, func(caller int) pacedCall {
		begin := time.Now()
		d, err := limiter.Allow(context.Background(), key(caller))
		took := time.Since(begin)
		if err != nil {
			t.Error(err)
		}
		return pacedCall{caller, took, d.Source == ration.SourceRedis, errors.Is(d.Cause, ration.ErrBreakerOpen)}
	})
}

// runNoise is the same load of calls that need this machine alone, for about as long as a decision takes that needs no Redis: how long
// those take is the machine's doing.
func (p paced) runNoise(until time.Time) []pacedCall {
	return p.runCalls(until, func(int) pacedCall {
		begin := time.Now()
		took := time.Since(begin)
		for took < time.Microsecond {
			took = time.Since(begin)
		}
		return pacedCall{took: took}
	})
}

func (p paced) runCalls(until time.Time, call func(caller int) pacedCall) []pacedCall {
	byCaller := make([][]pacedCall, p.callers)
	var group sync.WaitGroup
	for caller := range byCaller {
		byCaller[caller] = make([]pacedCall, 0, 1+time.Until(until)/p.pause)
	}
	for caller := range byCaller {
		group.Go(func() {
			for time.Now().Before(until) {
				byCaller[caller] = append(byCaller[caller], call(caller))
				time.Sleep(p.pause)
			}
		})
	}
	group.Wait()
	return slices.Concat(byCaller...)
}

// serverProcess is a redis-server of this machine, which is stopped by a signal: nothing is between it and its callers that would go on
// working for both.
type serverProcess struct {
	addr    string
	command *exec.Cmd
}

func startServerProcess(t *testing.T) *serverProcess {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	require.NoError(t, err)
	require.NoError(t, free.Close())
	s := &serverProcess{
		addr:    free.Addr().String(),
		command: exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir(), "--loglevel", "warning"),
	}
	require.NoError(t, s.command.Start(), "redis-server has to be in PATH")
	t.Cleanup(func() {
		_ = s.command.Process.Kill()
		_ = s.command.Wait()
	})
	rdb := s.newRedis(t, nil)
	await(t, "the server to answer", func(ctx context.Context) error { return rdb.Ping(ctx).Err() })
	return s
}

func (s *serverProcess) newRedis(t *testing.T, change func(*redis.Options)) *redis.Client {
	t.Helper()
	return (&server{addr: s.addr}).newRedis(t, change)
}

func (s *serverProcess) stop(t *testing.T) (goOn func()) {
	t.Helper()
	require.NoError(t, s.command.Process.Signal(syscall.SIGSTOP))
	return func() { require.NoError(t, s.command.Process.Signal(syscall.SIGCONT)) }
}

func sameKey(int) string { return "tenant:42" }

// quantile is the time that a part of the calls took at most.
func quantile(calls []pacedCall, part float64) time.Duration {
	took := make([]time.Duration, len(calls))
	for i, c := range calls {
		took[i] = c.took
	}
	slices.Sort(took)
	return took[int(part*float64(len(took)-1))]
}

// A server that stands still, for twice ten seconds, costs 64 callers their timeout of 10 ms at first, and nothing once the breaker is open.
//
// On a small machine the callers interrupt each other: computing for a microsecond takes 40 or more in one of a thousand cases, and that
// more in some seconds than in others. So rounds of decisions and of computing take turns, and the least disturbed counts.
func TestSoakServerStopped(t *testing.T) {
	const rounds = 5
	for name, policy := range map[string]ration.FailurePolicy{"local": ration.FailLocal(), "open": ration.FailOpen()} {
		t.Run(name, func(t *testing.T) {
			s := startServerProcess(t)
			rdb := s.newRedis(t, func(o *redis.Options) { o.MinIdleConns = 64 })
			client := newClient(t, rdb, ration.WithTimeout(10*time.Millisecond), ration.OnFailure(policy))
			limiter, err := client.Limiter("limiter", ration.TokenBucket{Rate: ration.PerSecond(1000), Burst: 1000})
			require.NoError(t, err)
			load := paced{64, 2 * time.Millisecond}
			load.run(t, limiter, sameKey, time.Now().Add(2*time.Second))
			before := runtime.NumGoroutine()

			goOn := s.stop(t)
			var waited, atOnce []pacedCall
			best := time.Hour
			for range rounds {
				var ofRound []pacedCall
				for _, c := range load.run(t, limiter, sameKey, time.Now().Add(outageSpan/rounds)) {
					if c.refused {
						ofRound = append(ofRound, c)
					} else {
						waited = append(waited, c)
					}
				}
				noise := load.runNoise(time.Now().Add(outageSpan / rounds))
				t.Logf("%d calls at once: p50 %v, p99.9 %v; 1 µs of computing: p50 %v, p99.9 %v", len(ofRound),
					quantile(ofRound, .5), quantile(ofRound, .999), quantile(noise, .5), quantile(noise, .999))
				best = min(best, quantile(ofRound, .999))
				atOnce = append(atOnce, ofRound...)
			}
			goOn()
			t.Logf("before the breaker opened, and probes: %d calls, p99.9 %v; after: %d calls, p50 %v, p99.9 %v", len(waited),
				quantile(waited, .999), len(atOnce), quantile(atOnce, .5), quantile(atOnce, .999))
			require.LessOrEqual(t, quantile(waited, .999), 15*time.Millisecond)
			require.LessOrEqual(t, best, 50*time.Microsecond, "p99.9 of the round that the machine disturbed least")
			require.Greater(t, len(atOnce), 100*len(waited))
			await(t, "goroutines to end", func(context.Context) error {
				if now := runtime.NumGoroutine(); now > before+2 {
					return fmt.Errorf("%d, %d before", now, before)
				}
				return nil
			})
		})
	}
}

// Eight instances with FailLocal admit between 80 and 105 % of the quota while the server stands still, are back within two seconds
// once it goes on, and admit over both no more than the plan and a twentieth.
func TestSoakFleetWhileServerStopped(t *testing.T) {
	const (
		instances = 8
		recovery  = 5 * time.Second
	)
	for _, c := range []struct {
		plan  ration.Plan
		rate  float64 // units a second
		burst float64
	}{
		{ration.TokenBucket{Rate: ration.PerSecond(400), Burst: 80}, 400, 80},
		{ration.GCRA{Rate: ration.PerSecond(400), Burst: 400}, 400, 400},
		{ration.FixedWindow{Limit: 2000, Window: 5 * time.Second}, 400, 2000},
		{ration.SlidingLog{Limit: 2000, Window: 5 * time.Second}, 400, 2000},
	} {
		t.Run(c.plan.String(), func(t *testing.T) {
			s := startServerProcess(t)
			prefix := freshPrefix()
			limiters := make([]*ration.Limiter, instances)
			for i := range limiters {
				client := newClient(t, s.newRedis(t, nil), ration.WithPrefix(prefix), ration.WithTimeout(10*time.Millisecond),
					ration.OnFailure(ration.FailLocal()))
				var err error
				limiters[i], err = client.Limiter("limiter", c.plan)
				require.NoError(t, err)
			}
			// Three times the quota, of each instance by four callers.
			const callers = 4
			load := paced{callers, time.Duration(instances * callers / (3 * c.rate) * float64(time.Second))}
			fleet := func(span time.Duration) (admitted int64, lastLocal time.Duration) {
				begin := time.Now()
				var mu sync.Mutex
				var group sync.WaitGroup
				for _, l := range limiters {
					group.Go(func() {
						for range callers {
							group.Go(func() {
								for time.Since(begin) < span {
									call := makeCall(l, "tenant:42")
									at := time.Since(begin)
									mu.Lock()
									admitted += call.decision.Granted
									if call.decision.Source == ration.SourceLocal && errors.Is(call.decision.Cause, ration.ErrBreakerOpen) {
										lastLocal = max(lastLocal, at)
									}
									mu.Unlock()
									time.Sleep(load.pause)
								}
							})
						}
					})
				}
				group.Wait()
				return admitted, lastLocal
			}
			fleet(3 * time.Second)
			goOn := s.stop(t)
			inOutage, _ := fleet(outageSpan)
			goOn()
			after, lastLocal := fleet(recovery)
			quota, all := c.rate*outageSpan.Seconds(), c.burst+c.rate*(outageSpan+recovery).Seconds()
			t.Logf("%d admitted in the outage, %.0f%% of the quota; %d with the recovery, %.0f%%; the last that met an open breaker after %v",
				inOutage, 100*float64(inOutage)/quota, inOutage+after, 100*float64(inOutage+after)/all, lastLocal)
			require.GreaterOrEqual(t, float64(inOutage), .8*quota)
			require.LessOrEqual(t, float64(inOutage), 1.05*quota)
			require.Less(t, lastLocal, 2*time.Second)
			require.LessOrEqual(t, float64(inOutage+after), 1.05*all)
		})
	}
}

// A master that dies leaves the times of keys of the other two as they were.
func TestSoakMasterKilled(t *testing.T) {
	c := startCluster(t, redis8, testcontainers.WithEnv(map[string]string{"NODE_TIMEOUT": neverGivenUp}))
	c.configure(t, "cluster-require-full-coverage", "no", c.ports...)
	shards := c.shards(t)
	client := newClient(t, c.newRedis(t, nil), ration.WithTimeout(10*time.Millisecond), ration.OnFailure(ration.FailLocal()))
	limiter, err := client.Limiter("limiter", ration.GCRA{Rate: ration.PerSecond(1_000_000), Burst: 1_000_000})
	require.NoError(t, err)
	key := func(caller int) string { return "{" + shards[caller%len(shards)].tag + "}" }
	load := paced{24, 5 * time.Millisecond}
	ofOthers := func(calls []pacedCall) (kept []pacedCall) {
		local := 0
		for _, call := range calls {
			if call.caller%len(shards) == 0 {
				continue
			}
			kept = append(kept, call)
			if !call.byRedis {
				local++
			}
		}
		require.LessOrEqual(t, local, len(kept)/1000, "of %d calls", len(kept))
		return kept
	}
	load.run(t, limiter, key, time.Now().Add(3*time.Second))
	before := ofOthers(load.run(t, limiter, key, time.Now().Add(outageSpan)))
	c.signal(t, shards[0].master, "KILL")
	after := ofOthers(load.run(t, limiter, key, time.Now().Add(outageSpan)))
	t.Logf("p99 %v before, %v after; %d and %d calls", quantile(before, .99), quantile(after, .99), len(before), len(after))
	require.LessOrEqual(t, float64(quantile(after, .99)), 1.2*float64(quantile(before, .99)))
}

// Ten minutes of random load with faults leave no goroutine and no memory behind.
func TestSoakRandomLoad(t *testing.T) { //nolint:paralleltest // as above
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	t.Run("warm", func(t *testing.T) { testRandomLoad(t, 10*time.Second) })
	goroutines, before := runtime.NumGoroutine(), heap()
	t.Run("load", func(t *testing.T) { testRandomLoad(t, 10*time.Minute) })
	await(t, "goroutines to end", func(context.Context) error {
		if n := runtime.NumGoroutine(); n > goroutines+2 {
			return fmt.Errorf("%d goroutines, %d before", n, goroutines)
		}
		return nil
	})
	after := heap()
	t.Logf("%d goroutines and %d bytes before, %d and %d after", goroutines, before, runtime.NumGoroutine(), after)
	require.Less(t, after, before+16<<20)
}
