package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// The contests that are held elsewhere than beside the Redis that is asked: at the end of a long road, and on a cluster.

// distance is how far away a Redis is in the contests that are held there: what each reply takes longer.
const distance = time.Millisecond

// elsewhere holds those, and those of several processes, as far as there are servers for them.
func (b *benchmark) elsewhere(ctx context.Context, r *report) (err error) {
	if b.target.isTests {
		return nil
	}
	if r.far, err = b.far(ctx); err != nil && !errors.Is(err, errNoServer) {
		return err
	}
	if r.onCluster, err = b.onCluster(ctx); err != nil && !errors.Is(err, errNoServer) {
		return err
	}
	r.processes, err = b.processes(ctx)
	return err
}

// far are contests on a redis-server that is some time away, behind a toxiproxy in this process.
func (b *benchmark) far(ctx context.Context) (all []throughput, err error) {
	server, err := startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	proxy := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "road", "127.0.0.1:0", server.addr)
	if err := proxy.Start(); err != nil {
		return nil, err
	}
	defer proxy.Stop()
	toxic := fmt.Sprintf(`{"type": "latency", "stream": "downstream", "attributes": {"latency": %d}}`, distance.Milliseconds())
	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		return nil, err
	}
	road := &redis.Options{Addr: proxy.Listen}
	for _, w := range []work{hotAllowed, manyAllowed} {
		result, err := b.hold(ctx, contest{
			work:    w,
			peers:   some(byDefault, oneKey, leased, rueidisOf(gcra()).name, baseline),
			callers: b.callers,
			open:    func(p peer, q quota) (limiter, error) { return p.opened(road, q) },
		})
		if err != nil {
			return nil, fmt.Errorf("%v away: %w", distance, err)
		}
		all = append(all, result)
	}
	return all, nil
}

// onCluster are contests on a cluster of three redis-servers.
func (b *benchmark) onCluster(ctx context.Context) (all []throughput, err error) {
	const masters = 3
	var nodes []string
	var servers []*server
	defer func() {
		for _, server := range servers {
			server.stop()
		}
	}()
	for range masters {
		server, err := startServer(ctx, "--cluster-enabled", "yes")
		if err != nil {
			return nil, err
		}
		servers, nodes = append(servers, server), append(nodes, server.addr)
	}
	b.tell("Make a cluster")
	if err := makeCluster(ctx, nodes); err != nil {
		return nil, fmt.Errorf("make a cluster: %w", err)
	}
	for _, w := range []work{hotAllowed, manyAllowed} {
		result, err := b.hold(ctx, contest{
			work:    w,
			peers:   some(byDefault, leased, baseline),
			callers: b.callers,
			open: func(p peer, q quota) (limiter, error) {
				return p.openedOn(redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes}), q)
			},
		})
		if err != nil {
			return nil, fmt.Errorf("on a cluster: %w", err)
		}
		all = append(all, result)
	}
	return all, nil
}

// makeCluster has servers be the masters of one cluster, each for as many slots.
func makeCluster(ctx context.Context, nodes []string) error {
	const slots = 16384
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	host, port, _ := net.SplitHostPort(nodes[0])
	for i, addr := range nodes {
		if err := onNode(addr, func(node *redis.Client) error {
			if err := node.ClusterAddSlotsRange(ctx, i*slots/len(nodes), (i+1)*slots/len(nodes)-1).Err(); err != nil {
				return err
			}
			return node.ClusterMeet(ctx, host, port).Err()
		}); err != nil {
			return err
		}
	}
	for _, addr := range nodes {
		if err := onNode(addr, func(node *redis.Client) error { return awaitCluster(ctx, node, len(nodes)) }); err != nil {
			return err
		}
	}
	return nil
}

// onNode does something with one server.
func onNode(addr string, do func(*redis.Client) error) error {
	node := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = node.Close() }()
	return do(node)
}

// awaitCluster waits until a server sees all of its cluster.
func awaitCluster(ctx context.Context, node *redis.Client, size int) error {
	for {
		info, err := node.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if infoField(info, "cluster_state") == "ok" && infoField(info, "cluster_known_nodes") == strconv.Itoa(size) {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// server is a redis-server of this program's, at a port of this machine.
type server struct {
	addr string
	stop func()
}

// errNoServer says that a contest needs a redis-server of its own.
var errNoServer = errors.New("there is no redis-server in PATH")

// startServer starts one, which stores nothing on disk that stays.
func startServer(ctx context.Context, options ...string) (*server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoServer
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}, options...)
	process := exec.Command(program, args...) //nolint:noctx // it is stopped by stop
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	s := &server{addr: "127.0.0.1:" + port, stop: func() {
		_ = process.Process.Kill()
		_ = process.Wait()
		_ = log.Close()
		_ = os.RemoveAll(dir)
	}}
	if err := await(ctx, &redis.Options{Addr: s.addr}); err != nil {
		s.stop()
		return nil, fmt.Errorf("%s does not answer: %w", program, err)
	}
	return s, nil
}

// freePort is a port that nobody has, and whose cluster bus, 10,000 above, is a port too.
func freePort(ctx context.Context) (string, error) {
	for {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return "", err
		}
		if port+10_000 < 1<<16 {
			return strconv.Itoa(port), nil
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return "", err
		}
	}
}
