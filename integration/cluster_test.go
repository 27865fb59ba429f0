package integration

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
)

// cluster is a Redis Cluster of three masters with a replica each: six servers in one container, which ends with the test.
// Every server says that it is at 127.0.0.1, so its port is the same inside and outside, and both the servers and the test
// reach it there. The bus stays inside.
type cluster struct {
	box   *box
	ports []int
	rdb   *redis.ClusterClient // for the test itself
}

// clusterImages are the servers whose clusters are put under load.
var clusterImages = []string{redis8, valkey8}

// onEachCluster runs a test on a fresh cluster of each image, one after the other.
func onEachCluster(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	for _, image := range clusterImages {
		t.Run(image, func(t *testing.T) { test(t, startCluster(t, image)) })
	}
}

const (
	clusterMasters = 3
	clusterNodes   = 2 * clusterMasters
	clusterSlots   = 16384
)

// clusterScript starts the program of its first argument on each of the others, which are ports, and stays. The process of the
// server of port P is named in /tmp/P.pid. A server that has ended is started again, with what it knew of the cluster and without
// data, when there is a file /tmp/P.start. A node that does not answer for two seconds is given up, unless NODE_TIMEOUT says another
// number of milliseconds.
const clusterScript = `
serve() {
  while true; do
    "$program" --port "$1" --dir /tmp --protected-mode no --save "" --appendonly no \
      --cluster-enabled yes --cluster-config-file "nodes-$1.conf" --cluster-announce-ip 127.0.0.1 \
      --cluster-node-timeout "${NODE_TIMEOUT:-2000}" --repl-timeout 1000000000 --repl-diskless-sync-delay 0 &
    echo $! >"/tmp/$1.pid"
    wait $!
    until [ -e "/tmp/$1.start" ]; do sleep 0.02; done
    rm "/tmp/$1.start"
  done
}
program=$1
shift
for port in "$@"; do
  serve "$port" &
done
wait
`

// neverGivenUp is a node timeout, in milliseconds, that no clock of a test's jumps over.
const neverGivenUp = "1000000000000000"

// startClusterWithClock starts a cluster whose servers all run on a clock of the test's, which shows start. None of them is given
// up, however the clock jumps.
func startClusterWithClock(t *testing.T, image string, start time.Time) (*cluster, *Clock) {
	t.Helper()
	clock, onClock := newContainerClock(t, start)
	stop := clock.tick(t)
	never := testcontainers.WithEnv(map[string]string{"NODE_TIMEOUT": neverGivenUp})
	c := startCluster(t, image, onClock, never)
	stop()
	return c, clock
}

// startCluster starts a cluster of an image, and waits until each server knows that all is well.
func startCluster(t *testing.T, image string, options ...testcontainers.ContainerCustomizer) *cluster {
	t.Helper()
	c := &cluster{ports: freePorts(t, clusterNodes)}
	command := []string{"sh", "-c", clusterScript, "cluster", program(image, "server")}
	published := make(map[string]int)
	for _, port := range c.ports {
		command = append(command, strconv.Itoa(port))
		published[strconv.Itoa(port)+"/tcp"] = port
	}
	c.box = startBox(t, image, append(options, testcontainers.WithCmd(command...), withPublished(published))...)

	create := []string{program(image, "cli"), "--cluster", "create"}
	for _, port := range c.ports {
		node := c.newNode(t, port)
		await(t, "the nodes to answer", func(ctx context.Context) error { return node.Ping(ctx).Err() })
		create = append(create, address(port))
	}
	c.box.exec(t, append(create, "--cluster-replicas", "1", "--cluster-yes")...)
	c.awaitWhole(t)
	c.rdb = c.newRedis(t, nil)
	return c
}

// program is how an image calls its server or its client.
func program(image, kind string) string {
	name, _, _ := strings.Cut(path.Base(image), ":")
	return name + "-" + kind
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// newRedis makes a redis client on the cluster, with the default options unless a function changes them.
func (c *cluster) newRedis(t *testing.T, change func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	options := &redis.ClusterOptions{}
	for _, port := range c.ports {
		options.Addrs = append(options.Addrs, address(port))
	}
	if change != nil {
		change(options)
	}
	rdb := redis.NewClusterClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// newNode makes a redis client on one node alone.
func (c *cluster) newNode(t *testing.T, port int) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: address(port)})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// awaitWhole waits until every node sees all nodes and all slots, and every replica follows its master.
func (c *cluster) awaitWhole(t *testing.T) {
	t.Helper()
	for _, port := range c.ports {
		node := c.newNode(t, port)
		await(t, "the cluster to be whole", func(ctx context.Context) error { return seesWhole(ctx, node) })
	}
}

func seesWhole(ctx context.Context, node *redis.Client) error {
	info, err := node.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, line := range []string{
		"cluster_state:ok\r\n",
		fmt.Sprintf("cluster_slots_ok:%d\r\n", clusterSlots),
		fmt.Sprintf("cluster_known_nodes:%d\r\n", clusterNodes),
		fmt.Sprintf("cluster_size:%d\r\n", clusterMasters),
	} {
		if !strings.Contains(info, line) {
			return fmt.Errorf("no %q in %q", line, info)
		}
	}
	nodes, err := seenBy(ctx, node)
	if err != nil {
		return err
	}
	replicas := 0
	for _, n := range nodes {
		if n.of != "-" {
			replicas++
		}
	}
	if replicas != clusterNodes-clusterMasters {
		return fmt.Errorf("%d replicas: %v", replicas, nodes)
	}
	replication, err := node.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(replication, "connected_slaves:1\r\n") && !strings.Contains(replication, "master_link_status:up\r\n") {
		return fmt.Errorf("no link in %q", replication)
	}
	return nil
}

// eachMaster does something on every master, on all of them at once.
func (c *cluster) eachMaster(t *testing.T, do func(ctx context.Context, node *redis.Client) error) {
	t.Helper()
	var masters atomic.Int64
	require.NoError(t, c.rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		masters.Add(1)
		return do(ctx, node)
	}))
	require.EqualValues(t, clusterMasters, masters.Load())
}

// errorCounts are the errors that the nodes have answered since they started, by their first word: MOVED, CROSSSLOT.
func (c *cluster) errorCounts(t *testing.T) map[string]int64 {
	t.Helper()
	counts := make(map[string]int64)
	for _, port := range c.ports {
		stats, err := c.newNode(t, port).Info(t.Context(), "errorstats").Result()
		require.NoError(t, err)
		for line := range strings.Lines(stats) {
			name, value, found := strings.Cut(strings.TrimSpace(line), ":count=")
			if !found {
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
			counts[strings.TrimPrefix(name, "errorstat_")] += n
		}
	}
	return counts
}
