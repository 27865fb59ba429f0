package redisurl_test

import (
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-ration/ration/cmd/ration/internal/redisurl"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// start starts a server that says of itself what a server of a cluster, or of none, says.
func start(t *testing.T, info string) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.NewMiniRedis()
	require.NoError(t, m.Start())
	t.Cleanup(m.Close)
	m.RequireUserAuth("user", "secret")
	m.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if cmd != "INFO" || len(args) != 1 || args[0] != "cluster" {
			return false
		}
		if info == "" {
			c.WriteError("NOPERM no info for you")
		} else {
			c.WriteBulk("# Cluster\r\n" + info + "\r\n")
		}
		return true
	})
	return m
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, info, parameters string
		wantName               string
		want                   redis.UniversalClient
	}{
		{"single", "cluster_enabled:0", "", "Redis at ", (*redis.Client)(nil)},
		{"does not tell", "", "", "Redis at ", (*redis.Client)(nil)},
		{"of a cluster", "cluster_enabled:1", "?max_retries=-1", "Redis Cluster at ", (*redis.ClusterClient)(nil)},
		{"named as a cluster", "cluster_enabled:1", "?addr=localhost:1", "Redis Cluster at ", (*redis.ClusterClient)(nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := start(t, c.info)
			s, err := redisurl.Open(t.Context(), "redis://user:secret@"+m.Addr()+c.parameters)
			require.NoError(t, err)
			require.Contains(t, s.String(), c.wantName+m.Addr())
			require.NotContains(t, s.String(), "secret")
			for range 2 {
				rdb := s.NewClient()
				require.IsType(t, c.want, rdb)
				require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
				require.NoError(t, rdb.Close())
			}
		})
	}
}

func TestOpenMistakes(t *testing.T) {
	t.Parallel()
	m := start(t, "cluster_enabled:0")
	for url, want := range map[string]string{
		"":                           "the URL of Redis has no scheme: want redis:// in front of it",
		"localhost:6379":             "the URL of Redis has no scheme: want redis:// in front of it",
		"127.0.0.1:6379":             "the URL of Redis has no scheme: want redis:// in front of it",
		"http://localhost":           "the URL of Redis: invalid URL scheme: http",
		"redis://:sec/ret@localhost": "the URL of Redis cannot be read",
		"redis://localhost/one":      `the URL of Redis: invalid database number: "one"`,
		"redis://localhost?foo=1":    "the URL of Redis: unexpected option: foo",
		"redis://localhost?addr=x":   "the URL of Redis: unable to parse addr param: x",
		"redis://localhost?master_name=m&replica_only=true": "the URL of Redis: route_by_latency, route_randomly and replica_only cannot be",
		"redis://user:wrong@" + m.Addr():                    "cannot reach Redis at " + m.Addr() + ": WRONGPASS",
		"redis://" + m.Addr():                               "cannot reach Redis at " + m.Addr() + ": NOAUTH",
		"unix:///nothing/there.sock":                        "cannot reach Redis at /nothing/there.sock: dial unix",
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			_, err := redisurl.Open(t.Context(), url)
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "sec")
		})
	}
}

// A server that accepts and says nothing does not hold anybody up.
func TestOpenHangs(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	_, err = redisurl.Open(t.Context(), "redis://"+listener.Addr().String())
	require.EqualError(t, err, "cannot reach Redis at "+listener.Addr().String()+": no answer within 3s")
}
