package integration

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/log"
)

// server is one Redis or Valkey in a container, which ends with the test.
type server struct {
	box  *box
	addr string
	rdb  *redis.Client // for the test itself
}

// serverPort is where a server listens inside its container.
const serverPort = "6379/tcp"

// startServer starts a server that keeps nothing on disk, unless the options say otherwise.
func startServer(t *testing.T, image string, options ...testcontainers.ContainerCustomizer) *server {
	t.Helper()
	defaults := []testcontainers.ContainerCustomizer{
		testcontainers.WithExposedPorts(serverPort),
		testcontainers.WithCmd("--save", "", "--appendonly", "no"),
	}
	s := &server{box: startBox(t, image, append(defaults, options...)...)}
	addr, err := s.box.container.PortEndpoint(t.Context(), serverPort, "")
	require.NoError(t, err)
	s.addr = addr
	s.rdb = s.newRedis(t, nil)
	await(t, "the server to answer", func(ctx context.Context) error { return s.rdb.Ping(ctx).Err() })
	return s
}

// startServers starts n servers in one container, each at a port that is the same inside and outside.
func startServers(t *testing.T, image string, n int, options ...testcontainers.ContainerCustomizer) []*redis.Client {
	t.Helper()
	ports := freePorts(t, n)
	startWithPorts(t, image, serversScript, ports, options...)
	servers := make([]*redis.Client, n)
	for i, port := range ports {
		servers[i] = redis.NewClient(&redis.Options{Addr: address(port)})
		t.Cleanup(func() { _ = servers[i].Close() })
		await(t, "the server to answer", func(ctx context.Context) error { return servers[i].Ping(ctx).Err() })
	}
	return servers
}

// serversScript starts the server whose name is its first argument, for each of the others, a port.
const serversScript = `
server=$1
shift
for port in "$@"; do
  "$server" --port "$port" --protected-mode no --save "" --appendonly no --repl-diskless-sync-delay 0 &
done
wait
`

// startWithPorts starts a container that runs a shell script, whose arguments are the name of the server's program and ports,
// which are published as they are.
func startWithPorts(t *testing.T, image, script string, ports []int, options ...testcontainers.ContainerCustomizer) {
	t.Helper()
	program := "redis-server"
	if image == valkey8 {
		program = "valkey-server"
	}
	command := []string{"sh", "-c", script, "sh", program}
	published := make(map[string]int)
	for _, port := range ports {
		command = append(command, strconv.Itoa(port))
		published[strconv.Itoa(port)+"/tcp"] = port
	}
	startBox(t, image, append(options, testcontainers.WithCmd(command...), withPublished(published))...)
}

// newRedis makes a redis client on the server, with the default options unless a function changes them.
func (s *server) newRedis(t *testing.T, change func(*redis.Options)) *redis.Client {
	t.Helper()
	options := &redis.Options{Addr: s.addr}
	if change != nil {
		change(options)
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// withPersistence makes a server keep every write on disk before it answers.
func withPersistence() testcontainers.CustomizeRequestOption {
	return testcontainers.WithCmd("--save", "", "--appendonly", "yes", "--appendfsync", "always")
}

// withPublished publishes ports of the container, "6379/tcp", at ports of the host, where they stay through a restart.
func withPublished(ports map[string]int) testcontainers.CustomizeRequestOption {
	return func(request *testcontainers.GenericContainerRequest) error {
		for inside := range ports {
			request.ExposedPorts = append(request.ExposedPorts, inside)
		}
		return testcontainers.WithHostConfigModifier(func(config *container.HostConfig) {
			if config.PortBindings == nil {
				config.PortBindings = make(network.PortMap)
			}
			for inside, outside := range ports {
				config.PortBindings[network.MustParsePort(inside)] = []network.PortBinding{{HostPort: strconv.Itoa(outside)}}
			}
		})(request)
	}
}

// handedOut are the ports that freePorts has answered; several tests may ask before the first publishes its own.
var handedOut struct {
	sync.Mutex
	ports map[int]bool
}

// freePorts finds n ports of the host, one after the other, that nobody listens on. They are below those that systems give
// to outgoing connections, so that none of these takes one before it is published.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	handedOut.Lock()
	defer handedOut.Unlock()
	if handedOut.ports == nil {
		handedOut.ports = make(map[int]bool)
	}
	for range 100 {
		first := 20_000 + rand.IntN(10_000)
		var ports []int
		for port := first; port < first+n && !handedOut.ports[port] && isFree(port); port++ {
			ports = append(ports, port)
		}
		if len(ports) < n {
			continue
		}
		for _, port := range ports {
			handedOut.ports[port] = true
		}
		return ports
	}
	t.Fatalf("found no %d free ports in a row", n)
	return nil
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// box is a container that ends with the test.
type box struct {
	container *testcontainers.DockerContainer
}

func startBox(t *testing.T, image string, options ...testcontainers.ContainerCustomizer) *box {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	quiet := testcontainers.WithLogger(log.NewNoopLogger())
	ctr, err := testcontainers.Run(ctx, image, append([]testcontainers.ContainerCustomizer{quiet}, options...)...)
	b := &box{container: ctr}
	t.Cleanup(func() {
		if t.Failed() && ctr != nil {
			t.Logf("%s said at last:\n%s", image, b.lastWords())
		}
		// What a container still does is of no use to anybody: it is not asked to stop.
		if err := testcontainers.TerminateContainer(ctr, testcontainers.StopTimeout(0)); err != nil {
			t.Errorf("remove the container of %s: %v", image, err)
		}
	})
	require.NoError(t, err, "start a container of %s", image)
	return b
}

// exec runs a command inside, which must succeed, and answers what it prints.
func (b *box) exec(t *testing.T, command ...string) string {
	t.Helper()
	code, output, err := b.container.Exec(t.Context(), command, exec.Multiplexed())
	require.NoError(t, err, "%v", command)
	printed, err := io.ReadAll(output)
	require.NoError(t, err, "%v", command)
	require.Zero(t, code, "%v: %s", command, printed)
	return string(printed)
}

// stop stops the container, in the way that lets the server write what it has to.
func (b *box) stop(t *testing.T) {
	t.Helper()
	grace := patience
	require.NoError(t, b.container.Stop(t.Context(), &grace))
}

func (b *box) start(t *testing.T) {
	t.Helper()
	require.NoError(t, b.container.Start(t.Context()))
}

// pause stands every process of the container still, until the function it answers is called, or the test ends.
func (b *box) pause(t *testing.T) (unpause func()) {
	t.Helper()
	b.tellDocker(t, func(ctx context.Context, docker *testcontainers.DockerClient, id string) error {
		_, err := docker.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		return err
	})
	paused := true
	unpause = func() {
		if !paused {
			return
		}
		paused = false
		b.tellDocker(t, func(ctx context.Context, docker *testcontainers.DockerClient, id string) error {
			_, err := docker.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
			return err
		})
	}
	t.Cleanup(unpause)
	return unpause
}

// tellDocker asks the Docker daemon for something that testcontainers does not offer. It works in a cleanup too, and no
// connection is kept.
func (b *box) tellDocker(t *testing.T, tell func(ctx context.Context, docker *testcontainers.DockerClient, id string) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, docker.Close()) }()
	require.NoError(t, tell(ctx, docker, b.container.GetContainerID()))
}

// await waits until something no longer fails.
func await(t *testing.T, what string, try func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = try(ctx); last == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no end of waiting for %s: %v", what, last)
		}
	}
}

// lastWords are the last lines that the container printed.
func (b *box) lastWords() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reader, err := b.container.Logs(ctx)
	if err != nil {
		return fmt.Sprint("(no log: ", err, ")")
	}
	defer func() { _ = reader.Close() }()
	printed, err := io.ReadAll(reader)
	if err != nil {
		return fmt.Sprint("(no log: ", err, ")")
	}
	lines := strings.Split(strings.TrimSpace(string(printed)), "\n")
	return strings.Join(lines[max(len(lines)-20, 0):], "\n")
}
