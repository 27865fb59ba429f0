package integration

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// trouble is a state of the world in which Redis gives no answer in time.
type trouble struct {
	rdb    redis.UniversalClient
	impose func(t *testing.T) (lift func())
	quiet  bool // nothing says that there is no answer: each call takes its timeout
	hangs  bool // a call that has been sent waits in the redis client
}

// A server that stands still costs each caller its timeout and no more, whatever the options of the redis client; nobody
// takes the silence for a denial, and nothing is left behind once the server goes on.
//
// It is not parallel: it counts goroutines, and measures time.
func TestServerHangs(t *testing.T) {
	s := startServer(t, redis8)
	for name, change := range map[string]func(*redis.Options){
		"default timeouts":        nil,
		"with the context":        func(o *redis.Options) { o.ContextTimeoutEnabled = true },
		"without any timeout":     func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = -1, -1, time.Hour },
		"a pool of one":           func(o *redis.Options) { o.PoolSize = 1 },
		"retries and a long dial": func(o *redis.Options) { o.MaxRetries, o.DialTimeout = 10, time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			testTimeoutHolds(t, trouble{rdb: newHangRedis(t, s.addr, change), impose: s.box.pause, quiet: true, hangs: true})
		})
	}
}

// The timeout holds in whatever state Redis, the way there or the redis client is; so does the bound on what calls leave behind,
// and when the state is over, Redis decides again.
//
// It is not parallel: it counts goroutines, and measures time.
func TestTimeoutHolds(t *testing.T) {
	s := startServer(t, redis8)
	for name, prepare := range map[string]func(t *testing.T, s *server) trouble{
		"the server's process is gone": func(t *testing.T, s *server) trouble {
			r := startRoad(t, s.addr)
			return trouble{rdb: newHangRedis(t, r.addr, nil), impose: r.refuse}
		},
		"connections break": func(t *testing.T, s *server) trouble {
			r := startRoad(t, s.addr)
			return trouble{rdb: newHangRedis(t, r.addr, nil), impose: r.resetAll}
		},
		"whatever is sent is lost": func(t *testing.T, s *server) trouble {
			r := startRoad(t, s.addr)
			return trouble{rdb: newHangRedis(t, r.addr, nil), impose: r.loseAll, quiet: true, hangs: true}
		},
		"connections are accepted, and nothing else": func(t *testing.T, s *server) trouble {
			d := startDoor(t, s.addr)
			return trouble{
				rdb:    newHangRedis(t, d.addr, nil),
				impose: func(*testing.T) (lift func()) { return d.keepSilent() },
				hangs:  true,
			}
		},
		"a byte a second": func(t *testing.T, s *server) trouble {
			r := startRoad(t, s.addr)
			return trouble{rdb: newHangRedis(t, r.addr, nil), impose: r.trickleReplies, quiet: true, hangs: true}
		},
		"the pool is used up": poolUsedUp,
		"dialing hangs":       dialingHangs,
		"a cluster without a master": func(t *testing.T, _ *server) trouble {
			rdb, r := startClusterBehindRoad(t)
			return trouble{rdb: rdb, impose: r.refuse}
		},
		"a cluster without an answer": func(t *testing.T, _ *server) trouble {
			rdb, r := startClusterBehindRoad(t)
			return trouble{rdb: rdb, impose: r.loseAll, quiet: true, hangs: true}
		},
	} {
		t.Run(name, func(t *testing.T) { testTimeoutHolds(t, prepare(t, s)) })
	}
}

// newHangRedis makes a redis client on an address, whose pool is not what bounds the calls on their way.
func newHangRedis(t *testing.T, addr string, change func(*redis.Options)) *redis.Client {
	t.Helper()
	return (&server{addr: addr}).newRedis(t, func(o *redis.Options) {
		o.PoolSize = hangPool
		if change != nil {
			change(o)
		}
	})
}

// startClusterBehindRoad starts a cluster of one master, which says that it is at the end of the road.
func startClusterBehindRoad(t *testing.T) (*redis.ClusterClient, *road) {
	t.Helper()
	s, _ := startClusterOfOne(t, redis8)
	r := startRoad(t, s.addr)
	s.announce(t, r.addr)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{r.addr}, PoolSize: hangPool})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, r
}

// poolUsedUp is a redis client whose one connection somebody has, for as long as he likes.
func poolUsedUp(t *testing.T, s *server) trouble {
	rdb := s.newRedis(t, func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 1, time.Hour })
	return trouble{rdb: rdb, quiet: true, impose: func(t *testing.T) (lift func()) {
		t.Helper()
		taken := rdb.Conn()
		require.NoError(t, taken.Ping(t.Context()).Err())
		return func() { require.NoError(t, taken.Close()) }
	}}
}

// dialingHangs is a redis client that has lost its connections, and that gets no new one.
func dialingHangs(t *testing.T, s *server) trouble {
	d := startDoor(t, s.addr)
	dialer := &hangingDialer{}
	rdb := newHangRedis(t, d.addr, func(o *redis.Options) { o.Dialer = dialer.dial })
	return trouble{rdb: rdb, impose: func(t *testing.T) (lift func()) {
		t.Helper()
		lift = dialer.hang(t)
		d.hangUp()
		return lift
	}}
}

const (
	hangTimeout = 50 * time.Millisecond
	// hangSlack is how late a busy machine may let a goroutine run.
	hangSlack = time.Second
	// hangPlaces bounds the calls on their way.
	hangPlaces = 20
	hangPool   = 2 * hangPlaces
	// hangCallers call at once, more of them than there are places.
	hangCallers = 64
)

func testTimeoutHolds(t *testing.T, in trouble) {
	client := newClient(t, in.rdb, ration.WithTimeout(hangTimeout), ration.WithMaxInFlight(hangPlaces), withoutBreaker())
	limiter, err := client.Limiter("limiter", ration.FixedWindow{Limit: 1000, Window: time.Hour})
	require.NoError(t, err)
	awaitRedis := func() {
		await(t, "decisions to come from Redis", func(ctx context.Context) error {
			_, err := byRedis(limiter.Allow(ctx, "tenant:42"))
			return err
		})
	}
	awaitRedis()
	ofRedis := goroutinesIn(redisPackage)

	lift := in.impose(t)
	calls := slices.Concat(makeCalls(limiter, "tenant:42", 1, 5), makeCalls(limiter, "tenant:42", hangCallers, 3))
	hung, hungOfRedis := goroutinesIn(executorType), goroutinesIn(redisPackage)
	for _, c := range calls {
		c.requireDecidedWithout(t)
		require.Less(t, c.took, hangTimeout+hangSlack)
		if in.quiet {
			require.ErrorIs(t, c.decision.Cause, ration.ErrTimeout)
			require.GreaterOrEqual(t, c.took, hangTimeout)
		}
	}
	require.True(t, hung > 0 || !in.hangs, "no call hangs, or the type has another name")
	require.LessOrEqual(t, hung, hangPlaces)
	// The redis client may dial in a goroutine for each connection of its pool, though no call waits for it any more, and look after
	// the pool in one or two.
	require.LessOrEqual(t, hungOfRedis, ofRedis+hangPool+hangPlaces+2)
	t.Logf("%d calls hang, %d goroutines in the redis client, which had %d", hung, hungOfRedis, ofRedis)

	lift()
	awaitRedis()
	client.Close()
	awaitGoroutines(t, ofRedis)
}

// awaitCallsEnded waits until nothing is left behind of calls: not what gives back late grants either.
func awaitCallsEnded(t *testing.T) {
	t.Helper()
	awaitGoroutines(t, math.MaxInt)
}

// awaitGoroutines waits until no call is on its way, and the redis clients have no more goroutines than they had.
func awaitGoroutines(t *testing.T, ofRedis int) {
	t.Helper()
	await(t, "goroutines to end", func(context.Context) error {
		ours, theirs := goroutinesIn(executorType), goroutinesIn(redisPackage)
		if ours > 0 || theirs > ofRedis {
			return fmt.Errorf("%d of ours, and %d of the redis client, which had %d", ours, theirs, ofRedis)
		}
		return nil
	})
}

// What a goroutine's stack names, where it runs a call of ours, or is at work in the redis client.
const (
	executorType = "github.com/go-ration/ration.(*executor)"
	redisPackage = "github.com/redis/go-redis/v9"
)

// goroutinesIn counts the goroutines whose stack names something. Those of the Docker client come and go as they like.
func goroutinesIn(name string) int {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	n := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, name) {
			n++
		}
	}
	return n
}

// Close comes back while the server hangs, and so does the call that it finds on its way.
func TestCloseWhileServerHangs(t *testing.T) {
	s := startServer(t, redis8)
	rdb := s.newRedis(t, func(o *redis.Options) { o.ReadTimeout = -1 })
	client := newClient(t, rdb, ration.WithTimeout(time.Hour))
	limiter, err := client.Limiter("limiter", fivePerMinute)
	require.NoError(t, err)
	_, err = byRedis(limiter.Allow(t.Context(), "tenant:42"))
	require.NoError(t, err)
	unpause := s.box.pause(t)
	answered := make(chan error, 1)
	go func() {
		_, err := byRedis(limiter.Allow(context.Background(), "tenant:42"))
		answered <- err
	}()
	require.Eventually(t, func() bool { return rdb.PoolStats().IdleConns == 0 }, patience, time.Millisecond,
		"the call is not on its way")
	begin := time.Now()
	client.Close()
	require.Less(t, time.Since(begin), 10*time.Second)
	_, err = byRedis(limiter.Allow(t.Context(), "tenant:42"))
	require.ErrorIs(t, err, ration.ErrClosed)
	unpause()
	require.NoError(t, <-answered)
}
