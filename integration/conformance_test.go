package integration

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/conformance"
)

// TestConformance runs the scenarios on every server, to the microsecond of its clock.
func TestConformance(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s, clock := startServerWithClock(t, image, conformance.T0)
		runConformance(t, &serverBackend{redis: s.rdb, clock: clock, client: newClient(t, s.rdb)})
	})
}

// runConformance runs the scenarios of single plans, by their own scripts and by that of several, and those of several plans.
func runConformance(t *testing.T, backend conformance.Backend) {
	t.Helper()
	conformance.Run(t, backend)
	conformance.Run(t, conformance.InMultiPlan(backend))
	conformance.RunMulti(t, backend)
}

// TestConformanceOnCluster runs them where keys have slots: on a cluster of one server, which needs no peer to keep up with
// the clock.
func TestConformanceOnCluster(t *testing.T) {
	t.Parallel()
	s, clock := startClusterOfOne(t, redis8)
	rdb := newClusterOfOne(t, s)
	runConformance(t, &serverBackend{redis: rdb, clock: clock, client: newClient(t, rdb)})
}

// TestConformanceOnWholeCluster runs them where there are several masters, and every one of them has a replica.
func TestConformanceOnWholeCluster(t *testing.T) {
	t.Parallel()
	for _, image := range clusterImages {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			c, clock := startClusterWithClock(t, image, conformance.T0)
			runConformance(t, &serverBackend{redis: c.rdb, clock: clock, client: newClient(t, c.rdb)})
			c.eachMaster(t, func(_ context.Context, node *redis.Client) error {
				if n := countScriptCalls(t, node).started; n == 0 {
					return errors.New("a master that was not asked")
				}
				return nil
			})
		})
	}
}

// TestConformanceOnRing runs them where each key is on one of three servers.
func TestConformanceOnRing(t *testing.T) {
	t.Parallel()
	clock, onClock := newContainerClock(t, conformance.T0)
	servers := startServers(t, redis8, 3, onClock)
	shards := make(map[string]string)
	for i, server := range servers {
		shards[strconv.Itoa(i)] = server.Options().Addr
	}
	rdb := redis.NewRing(&redis.RingOptions{Addrs: shards})
	t.Cleanup(func() { _ = rdb.Close() })
	runConformance(t, &serverBackend{redis: rdb, clock: clock, client: newClient(t, rdb)})
	for _, server := range servers {
		require.Positive(t, countScriptCalls(t, server).started, "a server that was not asked")
	}
}

// TestConformanceThroughSentinel runs them on a server that a Sentinel names.
func TestConformanceThroughSentinel(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		clock, onClock := newContainerClock(t, conformance.T0)
		ports := freePorts(t, 2)
		startWithPorts(t, image, sentinelScript, ports, onClock)
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "primary", SentinelAddrs: []string{address(ports[1])},
		})
		t.Cleanup(func() { _ = rdb.Close() })
		await(t, "the server to answer", func(ctx context.Context) error { return rdb.Ping(ctx).Err() })
		runConformance(t, &serverBackend{redis: rdb, clock: clock, client: newClient(t, rdb)})
	})
}

// sentinelScript starts a server at the first port, and a Sentinel that watches it at the second. A Sentinel does not trust a
// clock that jumps, so it goes by the machine's.
const sentinelScript = `
printf 'port %s\nprotected-mode no\nsentinel monitor primary 127.0.0.1 %s 1\n' "$3" "$2" >/tmp/sentinel.conf
env -u LD_PRELOAD "$1" /tmp/sentinel.conf --sentinel &
exec "$1" --port "$2" --protected-mode no --save "" --appendonly no
`

// TestConformanceWithLeastPermissions runs them as a user who may touch exactly the keys that a call names, with the commands
// that the script's header names. It covers every branch of the scripts that a scenario does.
func TestConformanceWithLeastPermissions(t *testing.T) {
	t.Parallel()
	s, clock := startServerWithClock(t, redis8, conformance.T0)
	require.NoError(t, s.rdb.Do(t.Context(), "acl", "setuser", "app", "on", ">app").Err())
	app := s.newRedis(t, func(o *redis.Options) { o.Username, o.Password = "app", "app" })
	calls := newScriptHook(t, func(ctx context.Context, _ redis.Cmder, script scriptFile, keys []string) error {
		return permit(ctx, s.rdb, keys, script.uses)
	})
	app.AddHook(calls)
	runConformance(t, &serverBackend{redis: s.rdb, clock: clock, client: newClient(t, app)})
	calls.requireAll(t)
}

// TestConformanceOnStrictCluster runs them where a script is refused that touches an undeclared key of another slot.
func TestConformanceOnStrictCluster(t *testing.T) {
	t.Parallel()
	s, clock := startClusterOfOne(t, redis8)
	rdb := newClusterOfOne(t, s)
	calls := newScriptHook(t, func(_ context.Context, cmd redis.Cmder, script scriptFile, _ []string) error {
		args := cmd.Args()
		args[0], args[1] = "eval", strictly(script.source)
		return nil
	})
	rdb.AddHook(calls)
	runConformance(t, &serverBackend{redis: rdb, clock: clock, client: newClient(t, rdb)})
	calls.requireAll(t)
}

// startClusterOfOne starts a cluster of one server, which has all slots.
func startClusterOfOne(t *testing.T, image string) (*server, *Clock) {
	t.Helper()
	port := freePorts(t, 1)[0]
	s, clock := startServerWithClock(t, image, conformance.T0,
		withPublished(map[string]int{serverPort: port}),
		testcontainers.WithCmd("--save", "", "--appendonly", "no", "--cluster-enabled", "yes",
			"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", strconv.Itoa(port)))
	require.NoError(t, s.rdb.ClusterAddSlotsRange(t.Context(), 0, clusterSlots-1).Err())
	awaitClusterState(t, s, clock, "ok")
	return s, clock
}

// serverBackend decides on a real server, whose clock goes back too.
type serverBackend struct {
	redis  redis.UniversalClient
	clock  *Clock
	client *ration.Client
}

func (b *serverBackend) SetTime(now time.Time)        { b.clock.Set(now) }
func (b *serverBackend) Redis() redis.UniversalClient { return b.redis }
func (b *serverBackend) StepsBack() bool              { return true }

func (b *serverBackend) Limiter(t *testing.T, name string, plan ration.Plan) conformance.Limiter {
	t.Helper()
	limiter, err := b.client.Limiter(name, plan)
	require.NoError(t, err)
	return limiter
}
