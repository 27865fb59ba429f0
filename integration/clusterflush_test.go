package integration

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// All nodes forget their scripts ten times a second, under callers who ask for their keys all the time: none of them is told
// of it, and each is charged once.
func TestClusterScriptsFlushedUnderLoad(t *testing.T) {
	onEachCluster(t, func(t *testing.T, c *cluster) {
		shards := c.shards(t)
		l := c.startLoad(t, shards[0].master, slices.Concat(
			jobsOn(shards[0].tag, plansOf(plenty)...),
			jobsOn(shards[1].tag, scarcePlans()...),
			jobsOn(shards[2].tag, plansOf(plenty)[0]))...)
		before := c.errorCounts(t)["NOSCRIPT"]
		flushing, stop := context.WithCancel(t.Context())
		var flushers sync.WaitGroup
		for _, port := range c.ports {
			node := c.newNode(t, port)
			flushers.Go(func() { flushEvery(flushing, node, 100*time.Millisecond) })
		}
		l.awaitRounds(t, 150)
		stop()
		flushers.Wait()
		unknown := c.errorCounts(t)["NOSCRIPT"] - before
		byJob := l.stop(t)

		t.Logf("%s\nNOSCRIPT %d", summary(byJob), unknown)
		l.checkExact(t, byJob, []int{0, 1, 2, 3, 4, 10})
		l.checkScarce(t, byJob, span(5, 10))
		require.Greater(t, unknown, int64(50), "the load did not meet the flushes")
	})
}

// flushEvery makes a node forget its scripts in every period, until the context ends.
func flushEvery(ctx context.Context, node *redis.Client, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for ctx.Err() == nil {
		node.ScriptFlush(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
