package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration/internal/conformance"
)

// TestComposeCluster runs the scenarios, and those of the keys, on the cluster of docker-compose.yml, which a user tries things
// out on.
func TestComposeCluster(t *testing.T) {
	t.Parallel()
	for _, image := range clusterImages {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			c, clock := startComposeCluster(t, image)
			t.Run("keys", func(t *testing.T) { testClusterKeys(t, c) })
			t.Run("conformance", func(t *testing.T) {
				runConformance(t, &serverBackend{redis: c.rdb, clock: clock, client: newClient(t, c.rdb)})
			})
		})
	}
}

// startComposeCluster starts the service `cluster` of docker-compose.yml, beside any that runs already: at ports of its own,
// and on a clock of the test's. It ends with the test.
func startComposeCluster(t *testing.T, image string) (*cluster, *Clock) {
	t.Helper()
	clock, folder := newClockFolder(t, conformance.T0)
	c := &cluster{ports: freePorts(t, clusterNodes)}
	first, last := c.ports[0], c.ports[clusterNodes-1]
	compose := &compose{
		command: append(findCompose(t), "--project-name", fmt.Sprint("ration-test-", first),
			"--file", "../docker-compose.yml", "--file", writeChanges(t, clockService(folder))),
		environment: append(os.Environ(),
			"RATION_CLUSTER_IMAGE="+image, fmt.Sprintf("RATION_CLUSTER_PORTS=%d-%d", first, last)),
	}
	stop := clock.tick(t)
	t.Cleanup(func() { compose.run(t, "down", "--volumes", "--timeout", "0") })
	compose.run(t, "up", "--detach", "cluster")
	for _, port := range c.ports {
		node := c.newNode(t, port)
		await(t, "the nodes to answer", func(ctx context.Context) error { return node.Ping(ctx).Err() })
	}
	c.awaitWhole(t)
	stop()
	c.rdb = c.newRedis(t, nil)
	return c, clock
}

// clockService is what a clock changes in the service: no server is given up, however it jumps.
func clockService(folder string) map[string]any {
	environment := maps.Clone(clockEnvironment)
	environment["SERVER_OPTIONS"] = "--cluster-node-timeout " + neverGivenUp + " --repl-timeout 1000000000"
	return map[string]any{
		"environment": environment,
		"volumes":     []string{folder + ":" + clockFolder + ":ro"},
		"healthcheck": map[string]any{"interval": "24h"}, // it is looked at from outside, and this costs much
	}
}

// writeChanges writes changes to the service as a file that compose reads after docker-compose.yml. It is JSON, which is YAML.
func writeChanges(t *testing.T, cluster map[string]any) (file string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"services": map[string]any{"cluster": cluster}})
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "changes.yml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

// findCompose finds the plugin `docker compose`, or the older docker-compose. It skips the test where there is neither, and
// where CI=true fails it.
func findCompose(t *testing.T) []string {
	t.Helper()
	for _, command := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if exec.CommandContext(t.Context(), command[0], append(command[1:], "version")...).Run() == nil {
			return command
		}
	}
	const missing = "neither docker compose nor docker-compose answers"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip("NOT TESTED: " + missing)
	return nil
}

// compose is a project of services.
type compose struct {
	command     []string
	environment []string
}

// run has compose do something, in a cleanup too.
func (c *compose) run(t *testing.T, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	command := exec.CommandContext(ctx, c.command[0], append(slices.Clone(c.command[1:]), arguments...)...)
	command.Env = c.environment
	printed, err := command.CombinedOutput()
	require.NoError(t, err, "%s: %s", command, printed)
}
