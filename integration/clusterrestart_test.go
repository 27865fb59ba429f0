package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A master loses all it holds and comes back before its replica takes over, as a server without persistence does that is
// restarted.
//
//   - Its keys begin anew: the first decision reports a full quota, what is granted from then on is charged to the unit, and a
//     quota that was used up is granted once more and no more often.
//   - Requests for them fail with ErrUnavailable, and with nothing else, until it serves again, and not once after that. (A
//     master that comes back serves nobody for two seconds, to hear first whether it is still one.)
//   - Keys of the other masters notice nothing.
func TestClusterMasterRestartedEmptyUnderLoad(t *testing.T) {
	const quota = 100 // used up before the restart, and again after it
	onEachCluster(t, func(t *testing.T, c *cluster) {
		shards := c.shards(t)
		empty, other := shards[0], shards[1]
		l := c.startLoad(t, other.master, slices.Concat(
			jobsOn(empty.tag, append(plansOf(plenty), plansOf(quota)...)...),
			jobsOn(other.tag, plansOf(plenty)[2:4]...))...)
		onEmpty, usedUp, onOther := span(0, 10), span(5, 10), span(10, 12)
		l.awaitUsedUp(t, usedUp)

		// The replica still holds everything, and must not take over.
		c.configure(t, "cluster-replica-no-failover", "yes", empty.replica)
		killed := l.now(t)
		c.restart(t, empty.master)
		gone := l.now(t) // not back yet: see above
		c.awaitServes(t, empty.slot, empty.master, other.master)
		back := l.now(t)
		l.awaitUsedUp(t, usedUp)
		l.awaitRounds(t, 10)
		c.checkLifetimes(t, l.prefix, empty.master, other.master)
		byJob := l.stop(t)

		t.Logf("back %v after the kill; %s", time.Duration(back-killed)*time.Microsecond, summary(byJob))
		l.checkExact(t, byJob, onOther)
		for _, i := range onEmpty {
			plan := l.jobs[i].Plan
			checkFaults(t, byJob[i], killed, back)
			before, after := split(byJob[i], gone)
			require.NotZero(t, tallyOf(byJob[i]).failed, "%s: the load did not meet the restart", plan)
			granted := tallyOf(after).granted
			l.requireCharged(t, i, granted)
			require.Equal(t, l.peek(t, i).Limit-1, mostRemaining(after), "%s: the first decision", plan)
			if slices.Contains(usedUp, i) {
				require.EqualValues(t, quota, tallyOf(before).granted, plan)
				require.EqualValues(t, quota, granted, plan)
			}
		}
	})
}

// split parts the attempts that began before a moment from the others.
func split(attempts []attempt, moment int64) (before, after []attempt) {
	for _, a := range attempts {
		if a.Before < moment {
			before = append(before, a)
		} else {
			after = append(after, a)
		}
	}
	return before, after
}

// mostRemaining is the most that a granted attempt left.
func mostRemaining(attempts []attempt) int64 {
	most := int64(-1)
	for _, a := range attempts {
		if a.Allowed {
			most = max(most, a.Remaining)
		}
	}
	return most
}
