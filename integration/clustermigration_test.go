package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// A slot moves to another master and back, key by key, while callers ask for its keys all the time: not one of them notices.
// They meet keys that have moved and keys that have not, are sent to the other master for one request (ASK) and for good
// (MOVED); no decision fails, none is charged twice or not at all, and no plan grants a unit more than it says: each redirection
// says that the script did not run, and a key moves with its value and the time it has to live.
func TestClusterSlotMovedUnderLoad(t *testing.T) {
	onEachCluster(t, func(t *testing.T, c *cluster) {
		shards := c.shards(t)
		from, to, other := shards[0], shards[1], shards[2]
		l := c.startLoad(t, other.master, slices.Concat(
			jobsOn(from.tag, append(plansOf(plenty), scarcePlans()...)...),
			jobsOn(other.tag, plansOf(plenty)[0]))...)
		before := c.errorCounts(t)
		for _, way := range [][2]int{{from.master, to.master}, {to.master, from.master}} {
			c.openSlot(t, from.slot, way[0], way[1])
			l.awaitRounds(t, 1)
			c.moveKeys(t, from.slot, way[0], way[1], func() { l.awaitRounds(t, 1) })
			c.closeSlot(t, from.slot, way[0], way[1])
			l.awaitRounds(t, 100)
		}
		after := c.errorCounts(t)
		byJob := l.stop(t)
		t.Logf("%s\nASK %d, MOVED %d", summary(byJob), after["ASK"]-before["ASK"], after["MOVED"]-before["MOVED"])
		l.checkExact(t, byJob, []int{0, 1, 2, 3, 4, 10})
		l.checkScarce(t, byJob, span(5, 10))
		require.Greater(t, after["ASK"], before["ASK"]+100, "the load did not meet the move")
		require.Greater(t, after["MOVED"], before["MOVED"], "the load did not meet the end of the move")
	})
}

// Plans that are decided together have a key each, and while some of these have moved and some have not, neither master can
// decide (TRYAGAIN). Nor can they where some are not there at all: the old master makes none in a slot that is leaving, and the
// new one takes requests for several keys only when it has all of them. That is over when the slot has moved: callers wait for
// it, and notice nothing else.
func TestClusterSlotOfSeveralPlansMovedUnderLoad(t *testing.T) {
	onEachCluster(t, func(t *testing.T, c *cluster) {
		shards := c.shards(t)
		from, to, other := shards[0], shards[1], shards[2]
		l := c.startLoad(t, other.master, slices.Concat(
			jobsOn(from.tag, together(plansOf(plenty)), together(scarcePlans())), jobsOn(other.tag, together(plansOf(plenty))))...)
		before := c.errorCounts(t)
		for _, way := range [][2]int{{from.master, to.master}, {to.master, from.master}} {
			torn := c.errorCounts(t)["TRYAGAIN"]
			c.openSlot(t, from.slot, way[0], way[1])
			c.moveKeys(t, from.slot, way[0], way[1], func() { c.awaitTryAgain(t, torn) })
			c.closeSlot(t, from.slot, way[0], way[1])
			l.awaitRounds(t, 100)
		}
		after := c.errorCounts(t)
		byJob := l.stop(t)
		t.Logf("%s\nTRYAGAIN %d, ASK %d, MOVED %d", summary(byJob),
			after["TRYAGAIN"]-before["TRYAGAIN"], after["ASK"]-before["ASK"], after["MOVED"]-before["MOVED"])
		l.checkExact(t, byJob, []int{0, 2})
		l.checkScarce(t, byJob, []int{1})
	})
}

// A log that is out as a whole, and still there while its slot moves, goes on where it is: the script does not let the key go,
// for the master refuses to make one in a slot that is leaving.
func TestClusterKeyOverWhileSlotMoves(t *testing.T) {
	onEachCluster(t, func(t *testing.T, c *cluster) {
		shards := c.shards(t)
		from, to := shards[0], shards[1]
		limiter := newLimiter(t, c.newRedis(t, nil), ration.SlidingLog{Limit: 2000, Window: 100 * time.Millisecond})
		key := ration.TaggedKey(from.tag, "tenant")
		d, err := byRedis(limiter.AllowN(t.Context(), key, 1500))
		require.NoError(t, err)
		require.True(t, d.Allowed)
		c.openSlot(t, from.slot, from.master, to.master)
		await(t, "the log to be out", func(ctx context.Context) error {
			d, err := byRedis(limiter.Peek(ctx, key))
			if err == nil && d.Remaining < d.Limit {
				err = fmt.Errorf("%+v", d)
			}
			return err
		})
		d, err = byRedis(limiter.Allow(t.Context(), key))
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.Equal(t, d.Limit-1, d.Remaining)
	})
}

// So it is where such a log is one of several plans: it does not let its key go, so that all keys stay together, and none of
// the others is charged for a script that is refused half way.
func TestClusterKeyOfSeveralPlansOverWhileSlotMoves(t *testing.T) {
	onEachCluster(t, func(t *testing.T, c *cluster) {
		shards := c.shards(t)
		from, to := shards[0], shards[1]
		plans := append(plansOf(plenty), ration.SlidingLog{Limit: 2000, Window: 100 * time.Millisecond})
		limiter := newLimiter(t, c.newRedis(t, nil), together(plans))
		key := ration.TaggedKey(from.tag, "tenant")
		d, err := byRedis(limiter.AllowN(t.Context(), key, 1500))
		require.NoError(t, err)
		require.True(t, d.Allowed)
		c.openSlot(t, from.slot, from.master, to.master)
		await(t, "the log to be out", func(ctx context.Context) error {
			d, err := byRedis(limiter.Peek(ctx, key))
			if log := d.Plans[len(d.Plans)-1]; err == nil && log.Remaining < log.Limit {
				err = fmt.Errorf("%+v", log)
			}
			return err
		})

		torn := c.errorCounts(t)["TRYAGAIN"]
		d, err = byRedis(limiter.Allow(t.Context(), key))
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.Equal(t, torn, c.errorCounts(t)["TRYAGAIN"], "all keys are still there")
		c.moveKeys(t, from.slot, from.master, to.master, func() {})
		c.closeSlot(t, from.slot, from.master, to.master)
		d, err = byRedis(limiter.Peek(t.Context(), key))
		require.NoError(t, err)
		for _, p := range d.Plans[:len(plans)-1] {
			require.EqualValues(t, 1500+1, p.Limit-p.Remaining, "%s: charged", p.Plan)
		}
	})
}

// A first request for several plans finds no keys in a slot that is leaving, and the new master makes none before it has the slot:
// it is sent until its timeout is over, and charged nothing; when the slot has moved, it is decided.
func TestClusterFirstRequestForSeveralPlansWhileSlotMoves(t *testing.T) {
	onEachCluster(t, func(t *testing.T, c *cluster) {
		shards := c.shards(t)
		from, to := shards[0], shards[1]
		client := newClient(t, c.newRedis(t, nil), ration.WithPrefix(freshPrefix()), ration.WithTimeout(100*time.Millisecond))
		limiter, err := client.Limiter("limiter", together(plansOf(plenty)))
		require.NoError(t, err)
		key := ration.TaggedKey(from.tag, "tenant")
		require.NoError(t, client.Ping(t.Context()))

		c.openSlot(t, from.slot, from.master, to.master)
		torn := c.errorCounts(t)["TRYAGAIN"]
		_, err = byRedis(limiter.Allow(t.Context(), key))
		require.ErrorIs(t, err, ration.ErrUnavailable)
		require.NotErrorIs(t, err, ration.ErrConfiguration)
		require.Greater(t, c.errorCounts(t)["TRYAGAIN"], torn+1, "it was sent more than once")
		c.closeSlot(t, from.slot, from.master, to.master)
		d, err := byRedis(limiter.Peek(t.Context(), key))
		require.NoError(t, err)
		for _, p := range d.Plans {
			require.Equal(t, p.Limit, p.Remaining, "%s: charged", p.Plan)
		}
		d, err = byRedis(limiter.Allow(t.Context(), key))
		require.NoError(t, err)
		require.True(t, d.Allowed)
	})
}

// awaitTryAgain waits until some caller has been told to try again, beyond those that were already.
func (c *cluster) awaitTryAgain(t *testing.T, already int64) {
	t.Helper()
	await(t, "a caller whose keys are torn apart", func(context.Context) error {
		if n := c.errorCounts(t)["TRYAGAIN"]; n == already {
			return fmt.Errorf("%d times until now", n)
		}
		return nil
	})
}
