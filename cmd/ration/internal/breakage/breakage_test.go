//go:build unix

package breakage_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-ration/ration/cmd/ration/internal/breakage"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// latency is more than a healthy answer takes, on any machine.
const latency = 300 * time.Millisecond

// client is one whose calls are sent once, and end with their contexts.
func client(t *testing.T, address string, dial func(ctx context.Context, network, address string) (net.Conn, error)) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: address, Dialer: dial, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// requireHung fails if a Redis answers, or refuses to.
func requireHung(t *testing.T, rdb *redis.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var failed net.Error
	require.ErrorAs(t, rdb.Ping(ctx).Err(), &failed)
	require.True(t, failed.Timeout(), failed)
}

func TestProxy(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	proxy := breakage.NewProxy(latency)
	t.Cleanup(proxy.Close)
	rdb := client(t, server.Addr(), proxy.Dial)
	ping := func() error { return rdb.Ping(t.Context()).Err() }
	require.NoError(t, ping())

	require.NoError(t, proxy.Set(breakage.Stopped))
	requireHung(t, rdb) // on the connection that there is
	requireHung(t, rdb) // on a new one
	require.NoError(t, proxy.Set(breakage.Healthy))
	require.Eventually(t, func() bool { return ping() == nil }, 10*time.Second, time.Millisecond)

	require.NoError(t, proxy.Set(breakage.Killed))
	refused := func() bool { return errors.Is(ping(), syscall.ECONNREFUSED) } // once the old connection was noticed to have ended
	require.Eventually(t, refused, 10*time.Second, time.Millisecond)
	require.NoError(t, proxy.Set(breakage.Healthy))
	require.Eventually(t, func() bool { return ping() == nil }, 10*time.Second, time.Millisecond)

	require.NoError(t, proxy.Set(breakage.Slow))
	begin := time.Now()
	require.NoError(t, ping())
	require.GreaterOrEqual(t, time.Since(begin), latency)
	require.NoError(t, proxy.Set(breakage.Healthy))
	begin = time.Now()
	require.NoError(t, ping())
	require.Less(t, time.Since(begin), latency)
	require.Equal(t, 1, server.CurrentConnectionCount(), "slowness breaks no connection")

	// Somebody else's connections are left alone.
	require.NoError(t, proxy.Set(breakage.Killed))
	require.NoError(t, client(t, server.Addr(), nil).Ping(t.Context()).Err())
	require.NoError(t, proxy.Set(breakage.Healthy))
	require.Eventually(t, func() bool { return ping() == nil }, 10*time.Second, time.Millisecond)
	proxy.Close()
	require.Eventually(t, refused, 10*time.Second, time.Millisecond)
}

func TestServer(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no redis-server in PATH: in CI it must be")
		}
		t.Skip("LEFT OUT: no redis-server in PATH, so that none is really stopped and killed")
	}
	directory := t.TempDir()
	t.Setenv("TMPDIR", directory)
	ctx := t.Context()
	server, err := breakage.StartServer(ctx, latency)
	require.NoError(t, err)
	defer server.Close()
	rdb := client(t, server.Address(), server.Dial)
	require.NoError(t, rdb.Set(ctx, "k", "v", 0).Err())

	require.NoError(t, server.Set(ctx, breakage.Stopped))
	requireHung(t, rdb)
	require.NoError(t, server.Set(ctx, breakage.Healthy))
	require.Eventually(t, func() bool { return rdb.Ping(ctx).Err() == nil }, 10*time.Second, time.Millisecond)

	require.NoError(t, server.Set(ctx, breakage.Killed))
	require.Eventually(t, func() bool { return errors.Is(rdb.Ping(ctx).Err(), syscall.ECONNREFUSED) }, 10*time.Second, time.Millisecond)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, server.Set(ended, breakage.Healthy), context.Canceled)
	require.NoError(t, server.Set(ctx, breakage.Healthy), "an interrupted start is not in the way")
	require.Eventually(t, func() bool { return rdb.Ping(ctx).Err() == nil }, 10*time.Second, time.Millisecond)
	require.Equal(t, "v", rdb.Get(ctx, "k").Val(), "it keeps what it had stored")

	require.NoError(t, server.Set(ctx, breakage.Slow))
	begin := time.Now()
	require.NoError(t, rdb.Ping(ctx).Err())
	require.GreaterOrEqual(t, time.Since(begin), latency)

	// It is closed whatever its state.
	require.NoError(t, server.Set(ctx, breakage.Stopped))
	server.Close()
	require.Error(t, client(t, server.Address(), nil).Ping(ctx).Err())
	left, err := os.ReadDir(directory)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestNoServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := breakage.StartServer(t.Context(), latency)
	require.ErrorIs(t, err, breakage.ErrNoServer)
}

// A server that cannot start says why, and leaves nothing behind.
func TestServerFails(t *testing.T) {
	directory, path := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", directory)
	t.Setenv("PATH", path+":/bin:/usr/bin")
	const script = "#!/bin/sh\nwhile [ \"$1\" != --dir ]; do shift; done\necho 'no memory' >\"$2/log\"\n"
	require.NoError(t, os.WriteFile(path+"/redis-server", []byte(script), 0o700))
	_, err := breakage.StartServer(t.Context(), latency)
	require.EqualError(t, err, "redis-server has ended: no memory")
	left, err := os.ReadDir(directory)
	require.NoError(t, err)
	require.Empty(t, left)
}
