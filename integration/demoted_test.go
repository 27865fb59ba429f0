package integration

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// B69: the server behind an address has become a replica, and the address points to the new master; the connections to the
// old one are still open. Each of them costs one call, which charges nothing and is decided by the failure policy, before the redis
// client gives it up: with ten connections, and ten calls a second, that is over in a second.
func TestDemotedServerOfB69(t *testing.T) {
	t.Parallel()
	const connections = 10
	p := startPair(t)
	door := startDoor(t, p.master.Options().Addr)
	rdb := redis.NewClient(&redis.Options{Addr: door.addr})
	t.Cleanup(func() { _ = rdb.Close() })
	keepConnections(t, rdb, connections)
	limiter := newLimiter(t, rdb, ration.FixedWindow{Limit: 5, Window: time.Hour})
	requireAllowed(t, limiter, 4)
	_, err := byRedis(limiter.AllowN(t.Context(), "tenant:0", 5))
	require.NoError(t, err)

	p.exchange(t)
	door.target.Store(&p.master.Options().Addr)
	// What writes nothing a replica answers.
	requireRemaining(t, limiter, 4)
	d, err := byRedis(limiter.Allow(t.Context(), "tenant:0"))
	require.NoError(t, err)
	require.False(t, d.Allowed)
	for range connections {
		d, err := byRedis(limiter.Allow(t.Context(), "tenant:42"))
		fault{answer: "READONLY"}.require(t, err)
		require.Equal(t, ration.SourceFailClosed, d.Source)
		require.False(t, d.Allowed)
	}
	requireAllowed(t, limiter, 3)
	require.EqualValues(t, 1, rdb.PoolStats().TotalConns)
}

// keepConnections has a redis client keep so many connections open.
func keepConnections(t *testing.T, rdb *redis.Client, n int) {
	t.Helper()
	taken := make([]*redis.Conn, n)
	for i := range taken {
		taken[i] = rdb.Conn()
		require.NoError(t, taken[i].Ping(t.Context()).Err())
	}
	for _, c := range taken {
		require.NoError(t, c.Close())
	}
	require.EqualValues(t, n, rdb.PoolStats().IdleConns)
}

// pair is a master and its replica, in one container.
type pair struct{ master, replica *redis.Client }

func startPair(t *testing.T) *pair {
	t.Helper()
	servers := startServers(t, redis8, 2)
	p := &pair{master: servers[0], replica: servers[1]}
	p.follow(t)
	return p
}

// follow has the replica follow the master, and waits until it does.
func (p *pair) follow(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(p.master.Options().Addr)
	require.NoError(t, err)
	require.NoError(t, p.replica.ReplicaOf(t.Context(), host, port).Err())
	await(t, "the replica to follow", func(ctx context.Context) error {
		role, err := p.replica.Do(ctx, "role").Slice()
		if err == nil && (role[0] != "slave" || role[3] != "connected") {
			err = fmt.Errorf("it is %v", role)
		}
		return err
	})
}

// exchange makes the replica, which has all that was written, the master.
func (p *pair) exchange(t *testing.T) {
	t.Helper()
	require.EqualValues(t, 1, p.master.Wait(t.Context(), 1, patience).Val())
	p.master, p.replica = p.replica, p.master
	require.NoError(t, p.master.ReplicaOf(t.Context(), "no", "one").Err())
	p.follow(t)
}
