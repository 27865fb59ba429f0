package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The server of a master is killed while callers spend the quotas of its keys.
func TestClusterMasterKilledUnderLoad(t *testing.T) {
	// The redis clients hear of the new master in a fraction of a second where the machine has nothing else to do.
	const resumption = 5 * time.Second
	onEachCluster(t, func(t *testing.T, c *cluster) { testMasterLost(t, c, "KILL", resumption) })
}

// The server of a master hangs: nothing says that it is gone but that there is no answer.
func TestClusterMasterHungUnderLoad(t *testing.T) {
	// A redis client asks any node which master is new, and when that is the one that hangs, it asks it four times before it
	// asks another one: four times its ReadTimeout of 3 s. Then there may be one more call on its way, which takes that long.
	const resumption = 20 * time.Second
	onEachCluster(t, func(t *testing.T, c *cluster) { testMasterLost(t, c, "STOP", resumption) })
}

// testMasterLost sends a signal to the server of a master under load. It may take what it did last with it: replication is not
// waited for.
//
//   - Keys of the other masters notice nothing at all: not one error, and exactly what was granted is charged. (For that a
//     cluster has to be told not to require full coverage.)
//   - Requests for its own keys fail with ErrUnavailable, and with nothing else, until its replica is promoted and for at most
//     `resumption` after that.
//   - What was granted beyond a quota is no more than what was lost, and that is at most one unit for each caller of the key: a
//     server sends its replica what it has written in the same turn in which it sends the answers, and a caller waits for its
//     answer before it asks again. For the same reason no more than that is charged without an answer: the calls that fail later
//     meet no server.
//   - No key is stuck: every caller gets decisions again, and every key has a time to live.
func testMasterLost(t *testing.T, c *cluster, signal string, resumption time.Duration) {
	// Used up after the failover: until the signal, a load asks for a part of them only.
	const quota = 1000
	shards := c.shards(t)
	dead, alive, other := shards[0], shards[1], shards[2]
	spent := plansOf(quota)
	l := c.startLoad(t, other.master, slices.Concat(
		jobsOn(dead.tag, spent...), jobsOn(alive.tag, plansOf(plenty)[3:]...), jobsOn(other.tag, plansOf(plenty)[:1]...))...)
	onDead, onOthers := span(0, len(spent)), span(len(spent), len(l.jobs))

	// By default a node answers nobody, whatever he asks for, while there is no master for some slot.
	c.configure(t, "cluster-require-full-coverage", "no", c.ports...)
	c.awaitReplicated(t, dead)
	lost := l.now(t)
	c.signal(t, dead.master, signal)
	c.awaitServes(t, dead.slot, dead.replica, alive.master, other.master)
	promoted := l.now(t)
	l.awaitRounds(t, 1)
	l.awaitUsedUp(t, onDead)
	l.awaitRounds(t, 1)
	c.checkLifetimes(t, l.prefix, dead.replica, alive.master, other.master)
	byJob := l.stop(t)

	balances := make([]int64, len(onDead)) // granted beyond the quota
	for i := range balances {
		balances[i] = tallyOf(byJob[i]).granted - quota
	}
	last := lastFault(slices.Concat(byJob...))
	t.Logf("promoted %v after the signal, last failure %v after that; granted beyond the quotas %v; %s",
		time.Duration(promoted-lost)*time.Microsecond, time.Duration(last-promoted)*time.Microsecond, balances, summary(byJob))
	require.NotZero(t, last, "the load did not meet the failover")
	l.checkExact(t, byJob, onOthers)
	for _, i := range onDead {
		plan := l.jobs[i].Plan
		checkFaults(t, byJob[i], lost, promoted+resumption.Microseconds())
		require.LessOrEqual(t, balances[i], int64(loadSize), "%s: units lost", plan)
		require.GreaterOrEqual(t, balances[i], -int64(loadSize), "%s: units charged without an answer", plan)
		require.Equal(t, max(balances[i], 0), l.excess(t, i, byJob[i]), "%s: units beyond the plan", plan)
	}
}

// A replica that takes over by order does so when it has all that its master wrote, and the master lets callers wait
// meanwhile: nothing is lost, and nobody is told of it. It is done there and back.
func TestClusterFailoverByHandUnderLoad(t *testing.T) {
	onEachCluster(t, func(t *testing.T, c *cluster) {
		shards := c.shards(t)
		moved, other := shards[0], shards[1]
		l := c.startLoad(t, other.master, slices.Concat(
			jobsOn(moved.tag, append(plansOf(plenty), scarcePlans()...)...),
			jobsOn(other.tag, plansOf(plenty)[0]))...)
		for _, successor := range []int{moved.replica, moved.master} {
			begun := l.now(t)
			require.NoError(t, c.newNode(t, successor).ClusterFailover(t.Context()).Err())
			c.awaitServes(t, moved.slot, successor, other.master)
			c.awaitWhole(t)
			l.awaitRounds(t, 1)
			t.Logf("took %v", time.Duration(l.now(t)-begun)*time.Microsecond)
			l.awaitRounds(t, 100)
		}
		byJob := l.stop(t)
		t.Log(summary(byJob))
		l.checkExact(t, byJob, []int{0, 1, 2, 3, 4, 10})
		l.checkScarce(t, byJob, span(5, 10))
	})
}

// checkLifetimes holds that every key of a prefix on some nodes has a time to live.
func (c *cluster) checkLifetimes(t *testing.T, prefix string, ports ...int) {
	t.Helper()
	keys := 0
	for _, port := range ports {
		node := c.newNode(t, port)
		scan := node.Scan(t.Context(), 0, prefix+":*", 1000).Iterator()
		for scan.Next(t.Context()) {
			keys++
			left, err := node.PTTL(t.Context(), scan.Val()).Result()
			require.NoError(t, err)
			require.Positive(t, left, scan.Val())
		}
		require.NoError(t, scan.Err())
	}
	require.NotZero(t, keys)
}
