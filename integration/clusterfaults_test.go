package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// otherCall has a client send something else in the place of each script call, for what no call of ours brings about.
type otherCall struct{ args []any }

func (otherCall) DialHook(next redis.DialHook) redis.DialHook { return next }

func (otherCall) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (o otherCall) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name == "evalsha" || name == "eval" {
			copy(cmd.Args(), o.args)
		}
		return next(ctx, cmd)
	}
}

// newOtherLimiter makes a limiter whose script calls are others, from the first word.
func newOtherLimiter(t *testing.T, rdb *redis.ClusterClient, args ...any) *ration.Limiter {
	t.Helper()
	rdb.AddHook(otherCall{args})
	return newLimiter(t, rdb, fivePerMinute)
}

// twoKeys is a script that charges two keys, and answers as that of a FixedWindow does.
const twoKeys = `redis.call('INCR', KEYS[1]) redis.call('INCR', KEYS[2]) return { 1, 4, 60000, 1 }`

// A cluster that has lost a slot, or is told to touch keys of two slots, answers with an error that says so, charges nothing,
// and goes on deciding when the fault is over.
func TestFaultsOfSlots(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s, clock := startClusterOfOne(t, image)
		rdb := newClusterOfOne(t, s)
		t.Run("a slot without a node", func(t *testing.T) { testLostSlot(t, s, clock, rdb) })
		t.Run("slots without a node, but looks allowed", func(t *testing.T) { testLostSlotButLooks(t, s, clock, rdb) })
		for name, c := range map[string]struct {
			args   []any
			answer string
		}{
			// What is a key, and what an argument, is one number in the call.
			"keys of two slots": {[]any{"eval", twoKeys, "2"}, "CROSSSLOT"},
			"a key of another slot that is not declared": {
				[]any{"eval", strictly("return redis.call('GET', 'other')"), "1"}, "Script attempted to access keys that do not hash to the same slot",
			},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := byRedis(newOtherLimiter(t, newClusterOfOne(t, s), c.args...).Allow(t.Context(), "tenant:42"))
				fault{answer: c.answer, configuration: true}.require(t, err)
			})
		}
	})
}

func newClusterOfOne(t *testing.T, s *server) *redis.ClusterClient {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func awaitClusterState(t *testing.T, s *server, clock *Clock, state string) {
	t.Helper()
	await(t, "the cluster to be "+state, func(ctx context.Context) error {
		clock.Advance(time.Second) // it waits a while of its own before it takes writes
		info, err := s.rdb.ClusterInfo(ctx).Result()
		if err == nil && !strings.Contains(info, "cluster_state:"+state) {
			err = errors.New(info)
		}
		return err
	})
}

func testLostSlot(t *testing.T, s *server, clock *Clock, rdb *redis.ClusterClient) {
	for _, plan := range patientPlans {
		limiter := newLimiter(t, rdb, plan)
		requireAllowed(t, limiter, 4)
		requireRemaining(t, limiter, 4)
		before := countScriptCalls(t, s.rdb)
		require.NoError(t, s.rdb.ClusterDelSlots(t.Context(), 0).Err())
		awaitClusterState(t, s, clock, "fail")
		_, err := byRedis(limiter.Allow(t.Context(), "tenant:42"))
		fault{answer: "CLUSTERDOWN"}.require(t, err)
		_, err = byRedis(limiter.Peek(t.Context(), "tenant:42"))
		fault{answer: "CLUSTERDOWN"}.require(t, err)
		require.Equal(t, scriptCalls{refused: 2}, countScriptCalls(t, s.rdb).minus(before))
		require.NoError(t, s.rdb.ClusterAddSlots(t.Context(), 0).Err())
		awaitClusterState(t, s, clock, "ok")
		requireAllowed(t, limiter, 3)
	}
}

// Where looks are allowed meanwhile, the script is started, and refused its first write.
func testLostSlotButLooks(t *testing.T, s *server, clock *Clock, rdb *redis.ClusterClient) {
	const lookInSpite = "cluster-allow-reads-when-down"
	require.NoError(t, s.rdb.ConfigSet(t.Context(), lookInSpite, "yes").Err())
	for _, plan := range patientPlans {
		limiter := newLimiter(t, rdb, plan)
		requireAllowed(t, limiter, 4)
		requireRemaining(t, limiter, 4)
		before := countScriptCalls(t, s.rdb)
		require.NoError(t, s.rdb.ClusterDelSlots(t.Context(), 0).Err())
		awaitClusterState(t, s, clock, "fail")
		_, err := byRedis(limiter.Allow(t.Context(), "tenant:42"))
		fault{answer: "Script attempted to execute a write command while the cluster is down"}.require(t, err)
		requireRemaining(t, limiter, 4)
		require.Equal(t, scriptCalls{started: 2, failed: 1}, countScriptCalls(t, s.rdb).minus(before))
		require.NoError(t, s.rdb.ClusterAddSlots(t.Context(), 0).Err())
		awaitClusterState(t, s, clock, "ok")
		requireAllowed(t, limiter, 3)
	}
	require.NoError(t, s.rdb.ConfigSet(t.Context(), lookInSpite, "no").Err())
}

// What happens to a call while its keys move from one node of a cluster to another, and to a master that becomes a replica.
func TestFaultsOnCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, redis8)
	t.Run("a master that has become a replica", func(t *testing.T) { testDemotedMaster(t, c) })
	c.awaitWhole(t)
	t.Run("calls while a replica takes over", func(t *testing.T) { testCallsInFailoverOfB69(t, c) })
	c.awaitWhole(t)
	t.Run("keys on the move", func(t *testing.T) { testKeysOnTheMove(t, c) })
	t.Run("a log that is out while its slot moves", func(t *testing.T) { testLogThatIsOut(t, c) })
}

// move is a slot on its way from one node to another.
type move struct {
	slot     int64
	from, to *redis.Client
	toID     string
}

// startMove declares that the slot of a key moves.
func startMove(t *testing.T, c *cluster, key string) *move {
	t.Helper()
	rdb := c.newRedis(t, nil) // which sees the cluster as it is now
	m := &move{}
	var err error
	m.slot, err = rdb.ClusterKeySlot(t.Context(), key).Result()
	require.NoError(t, err)
	m.from, err = rdb.MasterForKey(t.Context(), key)
	require.NoError(t, err)
	_, m.to = foreignKey(t, rdb, key)
	fromID, err := m.from.Do(t.Context(), "cluster", "myid").Text()
	require.NoError(t, err)
	m.toID, err = m.to.Do(t.Context(), "cluster", "myid").Text()
	require.NoError(t, err)
	require.NoError(t, m.to.Do(t.Context(), "cluster", "setslot", m.slot, "importing", fromID).Err())
	require.NoError(t, m.from.Do(t.Context(), "cluster", "setslot", m.slot, "migrating", m.toID).Err())
	return m
}

// foreignKey finds a key of another node than that of a key.
func foreignKey(t *testing.T, rdb *redis.ClusterClient, key string) (foreign string, node *redis.Client) {
	t.Helper()
	own, err := rdb.MasterForKey(t.Context(), key)
	require.NoError(t, err)
	for i := range 1000 {
		foreign = fmt.Sprint("foreign:", i)
		node, err = rdb.MasterForKey(t.Context(), foreign)
		require.NoError(t, err)
		if node != own {
			return foreign, node
		}
	}
	t.Fatal("one node has all keys")
	return "", nil
}

// take moves a key.
func (m *move) take(t *testing.T, key string) {
	t.Helper()
	host, port, err := net.SplitHostPort(m.to.Options().Addr)
	require.NoError(t, err)
	require.NoError(t, m.from.Migrate(t.Context(), host, port, key, 0, patience).Err())
}

// end declares that the slot has moved.
func (m *move) end(t *testing.T) {
	t.Helper()
	for _, node := range []*redis.Client{m.to, m.from} {
		require.NoError(t, node.Do(t.Context(), "cluster", "setslot", m.slot, "node", m.toID).Err())
	}
}

// A call on two keys that are not at the same node for a while is sent again until they are, and charges each of them once.
func testKeysOnTheMove(t *testing.T, c *cluster) {
	tag := "{" + freshPrefix() + "}"
	keys := []string{tag + ":one", tag + ":other"}
	requireCounts := func(want string) {
		t.Helper()
		for _, key := range keys {
			require.Equal(t, want, c.rdb.Get(t.Context(), key).Val(), key)
		}
	}
	for _, key := range keys {
		require.NoError(t, c.rdb.Set(t.Context(), key, "0", 0).Err())
	}
	limiter := newOtherLimiter(t, c.newRedis(t, nil), "eval", twoKeys, "2", keys[0], keys[1])
	m := startMove(t, c, keys[0])
	m.take(t, keys[0])
	before := c.errorCounts(t)["TRYAGAIN"]
	answered := make(chan error, 1)
	go func() {
		_, err := byRedis(limiter.Allow(context.Background(), "tenant:42"))
		answered <- err
	}()
	await(t, "the call to be sent again", func(context.Context) error {
		if n := c.errorCounts(t)["TRYAGAIN"] - before; n < 3 {
			return fmt.Errorf("it was refused %d times", n)
		}
		return nil
	})
	m.take(t, keys[1])
	require.NoError(t, <-answered)
	requireCounts("1")
	m.end(t)
	requireAllowed(t, limiter, 4)
	requireCounts("2")
}

// A log that is out as a whole does not let its key go, which would belong to the other node while its slot moves.
func testLogThatIsOut(t *testing.T, c *cluster) {
	prefix := freshPrefix()
	limiter, err := newClient(t, c.newRedis(t, nil), ration.WithPrefix(prefix)).Limiter("limiter",
		ration.SlidingLog{Limit: 5, Window: time.Hour})
	require.NoError(t, err)
	const key = "key that goes"
	_, err = byRedis(limiter.Allow(t.Context(), key))
	require.NoError(t, err)
	// Under another plan, all of the log is out at once.
	moment := ration.Request{Key: key, Plan: ration.SlidingLog{Limit: 5, Window: time.Millisecond}}
	await(t, "the log to be out", func(ctx context.Context) error {
		d, err := byRedis(limiter.Take(ctx, moment))
		if err == nil && d.Remaining < 5 {
			err = errors.New("it is not")
		}
		return err
	})
	stored := prefix + ":limiter:sl1w:{" + key + "}"
	m := startMove(t, c, stored)
	require.EqualValues(t, 1, m.from.Exists(t.Context(), stored).Val())
	before := countScriptCalls(t, m.from)
	moment.Cost = 1
	d, err := byRedis(limiter.Take(t.Context(), moment))
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.EqualValues(t, 4, d.Remaining)
	require.Zero(t, countScriptCalls(t, m.from).minus(before).failed)
	m.take(t, stored) // if it has not expired yet
	m.end(t)
}

// A client that goes on asking a master that has become a replica is shown the way, and charges once: with default options
// that is a MOVED. One that may ask replicas is refused the write, and finds the new master by itself.
func testDemotedMaster(t *testing.T, c *cluster) {
	limiters := make(map[bool]*ration.Limiter) // by whether they may ask replicas
	for _, readOnly := range []bool{false, true} {
		rdb := c.newRedis(t, func(o *redis.ClusterOptions) { o.ReadOnly = readOnly })
		limiters[readOnly] = newLimiter(t, rdb, fivePerMinute)
		requireAllowed(t, limiters[readOnly], 4)
		requireRemaining(t, limiters[readOnly], 4)
	}
	c.failOver(t, "tenant:42")
	for readOnly, limiter := range limiters {
		before := c.errorCounts(t)["READONLY"]
		requireAllowed(t, limiter, 3)
		refused := c.errorCounts(t)["READONLY"] - before
		require.Equal(t, readOnly, refused > 0)
		require.LessOrEqual(t, refused, int64(3), "it is redirected three times at most")
		requireRemaining(t, limiter, 3)
	}
}

// B69: calls that come while a replica takes over are decided by Redis or by the failure policy, and soon after that by Redis alone.
func testCallsInFailoverOfB69(t *testing.T, c *cluster) {
	const (
		timeout = 100 * time.Millisecond
		soon    = 5 * time.Second
	)
	key, _ := foreignKey(t, c.rdb, "tenant:42") // of a master that has not been exchanged yet
	limiter, err := newClient(t, c.newRedis(t, nil)).Limiter("limiter", ration.FixedWindow{Limit: 10_000, Window: time.Hour},
		ration.WithTimeout(timeout), ration.OnFailure(ration.FailOpen()))
	require.NoError(t, err)
	await(t, "a decision by Redis", func(ctx context.Context) error {
		_, err := byRedis(limiter.Allow(ctx, key))
		return err
	})
	over, called := make(chan struct{}), make(chan []timedCall, 1)
	go func() {
		tick := time.NewTicker(timeout / 20)
		defer tick.Stop()
		var calls []timedCall
		for {
			calls = append(calls, makeCall(limiter, key))
			select {
			case <-tick.C:
			case <-over:
				called <- calls
				return
			case <-t.Context().Done():
				return
			}
		}
	}()
	c.failOver(t, key)
	close(over)
	for _, call := range <-called {
		require.NoError(t, call.err)
		require.True(t, call.decision.Allowed)
		if call.decision.Source != ration.SourceRedis {
			require.Equal(t, ration.SourceFailOpen, call.decision.Source)
			require.ErrorIs(t, call.decision.Cause, ration.ErrUnavailable)
		}
	}
	tick := time.NewTicker(timeout)
	defer tick.Stop()
	for calls := 0; ; calls++ {
		require.Less(t, calls, int(soon/timeout), "no decision by Redis")
		d, err := limiter.Allow(t.Context(), key)
		require.NoError(t, err)
		if d.Source == ration.SourceRedis {
			return
		}
		<-tick.C
	}
}

// failOver makes a replica, which has all that was written, the master of a key.
func (c *cluster) failOver(t *testing.T, key string) {
	t.Helper()
	old, err := c.rdb.MasterForKey(t.Context(), key)
	require.NoError(t, err)
	require.EqualValues(t, 1, old.Wait(t.Context(), 1, patience).Val())
	id, err := old.Do(t.Context(), "cluster", "myid").Text()
	require.NoError(t, err)
	for _, port := range c.ports {
		node := c.newNode(t, port)
		nodes, err := node.ClusterNodes(t.Context()).Result()
		require.NoError(t, err)
		if !strings.Contains(nodes, "myself,slave "+id) {
			continue
		}
		// Without a vote, which masters that have just met may refuse.
		require.NoError(t, node.Do(t.Context(), "cluster", "failover", "takeover").Err())
		await(t, "the roles to change", func(ctx context.Context) error {
			role, err := old.Do(ctx, "role").Slice()
			if err == nil && (role[0] != "slave" || role[3] != "connected") {
				err = fmt.Errorf("the old master is %v", role)
			}
			return err
		})
		return
	}
	t.Fatal("the master has no replica")
}
