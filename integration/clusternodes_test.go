package integration

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// shard is a master of a cluster with its replica, by their ports, and a hash tag whose slot it serves.
type shard struct {
	master, replica int
	tag             string
	slot            int64
}

// shards are the shards as they are now.
func (c *cluster) shards(t *testing.T) []shard {
	t.Helper()
	nodes, err := seenBy(t.Context(), c.newNode(t, c.ports[0]))
	require.NoError(t, err)
	var shards []shard
	for _, master := range nodes {
		if len(master.slots) == 0 {
			continue
		}
		s := shard{master: master.port}
		for _, replica := range nodes {
			if replica.of == master.id {
				s.replica = replica.port
			}
		}
		require.NotZero(t, s.replica, "a master without a replica")
		for n := 0; s.tag == ""; n++ {
			tag := fmt.Sprint("tag", n)
			s.slot, err = c.rdb.ClusterKeySlot(t.Context(), tag).Result()
			require.NoError(t, err)
			if master.serves(s.slot) {
				s.tag = tag
			}
		}
		shards = append(shards, s)
	}
	require.Len(t, shards, clusterMasters)
	return shards
}

// peer is a node as another one sees it.
type peer struct {
	id    string
	port  int
	of    string     // the id of its master
	slots [][2]int64 // first and last
}

func (n peer) serves(slot int64) bool {
	return slices.ContainsFunc(n.slots, func(r [2]int64) bool { return r[0] <= slot && slot <= r[1] })
}

// seenBy are the nodes that one of them sees. A line of theirs is
//
//	id 127.0.0.1:port@bus flags master-id-or-dash ping pong epoch link slots…
func seenBy(ctx context.Context, rdb *redis.Client) ([]peer, error) {
	text, err := rdb.ClusterNodes(ctx).Result()
	if err != nil {
		return nil, err
	}
	var nodes []peer
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		n := peer{id: fields[0], of: fields[3]}
		if _, err := fmt.Sscanf(fields[1], "127.0.0.1:%d@", &n.port); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		for _, field := range fields[8:] {
			first, last, found := strings.Cut(field, "-")
			if !found {
				last = first
			}
			from, err := strconv.ParseInt(first, 10, 64)
			to, err2 := strconv.ParseInt(last, 10, 64)
			if err != nil || err2 != nil {
				continue // a slot on the move
			}
			n.slots = append(n.slots, [2]int64{from, to})
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// awaitServes waits until the nodes at some ports, the one that is to serve a slot first, see that it does.
func (c *cluster) awaitServes(t *testing.T, slot int64, port int, others ...int) {
	t.Helper()
	for _, observer := range append([]int{port}, others...) {
		rdb := c.newNode(t, observer)
		await(t, "a node to serve a slot", func(ctx context.Context) error {
			nodes, err := seenBy(ctx, rdb)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(nodes, func(n peer) bool { return n.port == port && n.serves(slot) }) {
				return fmt.Errorf("%d serves no slot %d to %d: %v", port, slot, observer, nodes)
			}
			info, err := rdb.ClusterInfo(ctx).Result()
			if err == nil && !strings.Contains(info, "cluster_state:ok\r\n") {
				err = fmt.Errorf("the state is %q", info)
			}
			return err
		})
	}
}

// awaitReplicated waits until the replica of a shard says that it has what its master writes now. Behind a full
// synchronization, as at the start of a cluster, a master keeps to itself what it writes until the replica speaks, for up to a second.
func (c *cluster) awaitReplicated(t *testing.T, s shard) {
	t.Helper()
	node := c.newNode(t, s.master)
	await(t, "the replica to have all", func(ctx context.Context) error {
		var have *redis.Cmd
		// On one connection: WAIT is for what was written on its own.
		_, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "{"+s.tag+"}", "", time.Minute)
			have = pipe.Do(ctx, "WAIT", 1, time.Second.Milliseconds())
			return nil
		})
		if err != nil {
			return err
		}
		if replicas, err := have.Int(); err != nil || replicas != 1 {
			return fmt.Errorf("%d replicas have: %w", replicas, err)
		}
		return nil
	})
}

// signal sends a signal to the server of a port.
func (c *cluster) signal(t *testing.T, port int, signal string) {
	t.Helper()
	c.box.exec(t, "sh", "-c", fmt.Sprintf("kill -%s $(cat /tmp/%d.pid)", signal, port))
}

// restart kills the server of a port, which starts again without data.
func (c *cluster) restart(t *testing.T, port int) {
	t.Helper()
	c.box.exec(t, "touch", fmt.Sprintf("/tmp/%d.start", port))
	c.signal(t, port, "KILL")
}

// configure sets a parameter of the servers of some ports, until they end.
func (c *cluster) configure(t *testing.T, name, value string, ports ...int) {
	t.Helper()
	for _, port := range ports {
		require.NoError(t, c.newNode(t, port).ConfigSet(t.Context(), name, value).Err())
	}
}

// id is how the node at a port is called in its cluster.
func (c *cluster) id(t *testing.T, port int) string {
	t.Helper()
	id, err := c.newNode(t, port).ClusterMyID(t.Context()).Result()
	require.NoError(t, err)
	return id
}

// setSlot tells the node at a port what becomes of a slot.
func (c *cluster) setSlot(t *testing.T, port int, slot int64, what ...any) {
	t.Helper()
	args := append([]any{"CLUSTER", "SETSLOT", slot}, what...)
	require.NoError(t, c.newNode(t, port).Do(t.Context(), args...).Err(), "%v", args)
}

// openSlot begins to move a slot: from here on, keys that the master does not have are to be asked for at the other.
func (c *cluster) openSlot(t *testing.T, slot int64, from, to int) {
	t.Helper()
	c.setSlot(t, to, slot, "IMPORTING", c.id(t, from))
	c.setSlot(t, from, slot, "MIGRATING", c.id(t, to))
}

// closeSlot ends the move of a slot, whose keys have all been moved. The new master is told first, as redis-cli does: told
// last, it would send those away whom the old one sends to it.
func (c *cluster) closeSlot(t *testing.T, slot int64, from, to int) {
	t.Helper()
	id := c.id(t, to)
	c.setSlot(t, to, slot, "NODE", id)
	c.setSlot(t, from, slot, "NODE", id)
}

// moveKeys moves the keys of a slot that is being moved, one by one, doing something after each.
func (c *cluster) moveKeys(t *testing.T, slot int64, from, to int, after func()) {
	t.Helper()
	source := c.newNode(t, from)
	for {
		keys, err := source.ClusterGetKeysInSlot(t.Context(), int(slot), 1).Result()
		require.NoError(t, err)
		if len(keys) == 0 {
			return
		}
		// NOKEY: it expired in this moment.
		moved, err := source.Migrate(t.Context(), "127.0.0.1", fmt.Sprint(to), keys[0], 0, patience).Result()
		require.NoError(t, err)
		require.Contains(t, []string{"OK", "NOKEY"}, moved)
		after()
	}
}
