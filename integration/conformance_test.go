package integration

import (
	"context"
	"errors"
	"strconv"
	"strings"
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
		backend := &serverBackend{redis: s.rdb, clock: clock, client: newClient(t, s.rdb)}
		conformance.Run(t, backend)
		conformance.Run(t, conformance.InMultiPlan(backend))
		conformance.RunMulti(t, backend)
	})
}

// TestConformanceOnCluster runs them where keys have slots: on a cluster of one server, which needs no peer to keep up with
// the clock.
func TestConformanceOnCluster(t *testing.T) {
	t.Parallel()
	port := freePorts(t, 1)[0]
	s, clock := startServerWithClock(t, redis8, conformance.T0,
		withPublished(map[string]int{serverPort: port}),
		testcontainers.WithCmd("--save", "", "--appendonly", "no", "--cluster-enabled", "yes",
			"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", strconv.Itoa(port)))
	require.NoError(t, s.rdb.ClusterAddSlotsRange(t.Context(), 0, clusterSlots-1).Err())
	await(t, "the cluster to be in order", func(ctx context.Context) error {
		clock.Advance(time.Second) // it waits a while of its own before it takes writes
		info, err := s.rdb.ClusterInfo(ctx).Result()
		if err == nil && !strings.Contains(info, "cluster_state:ok") {
			err = errors.New(info)
		}
		return err
	})
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	backend := &serverBackend{redis: rdb, clock: clock, client: newClient(t, rdb)}
	conformance.Run(t, backend)
	conformance.Run(t, conformance.InMultiPlan(backend))
	conformance.RunMulti(t, backend)
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
