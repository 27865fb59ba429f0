package integration

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// loss is a way in which the reply to a call is lost that the server has charged.
type loss struct {
	timeout     time.Duration // of the call; 0: longer than the redis client waits
	readTimeout time.Duration // of the redis client; 0: the default
	spoil       spoiling
}

// losses are those of a reply that never comes, whoever gives up first, of a connection that breaks, and of a reply that says nothing.
func losses() map[string]loss {
	drop := func(*net.TCPConn, []byte) {}
	instead := func(what string) loss {
		return loss{spoil: func(client *net.TCPConn, _ []byte) { _, _ = client.Write([]byte(what)) }}
	}
	return map[string]loss{
		"no reply within the timeout":               {timeout: 100 * time.Millisecond, readTimeout: 500 * time.Millisecond, spoil: drop},
		"no reply while the redis client waits":     {readTimeout: 100 * time.Millisecond, spoil: drop},
		"the connection is closed":                  {spoil: func(client *net.TCPConn, _ []byte) { _ = client.Close() }},
		"the connection is reset":                   {spoil: reset},
		"the connection is closed within the reply": {spoil: closeWithin},
		"garbage":                        instead("\x00\xff?!\r\n"),
		"a reply to something else":      instead("+OK\r\n"),
		"a reply with too few numbers":   instead("*1\r\n:1\r\n"),
		"a reply with words for numbers": instead("*4\r\n$3\r\none\r\n$3\r\ntwo\r\n:1\r\n:1\r\n"),
	}
}

func reset(client *net.TCPConn, _ []byte) {
	_ = client.SetLinger(0)
	_ = client.Close()
}

func closeWithin(client *net.TCPConn, reply []byte) {
	_, _ = client.Write(reply[:len(reply)/2])
	_ = client.Close()
}

// B63: a call whose reply is lost may have been charged. It is not sent again, by the redis client neither, however often that would
// by itself: it is charged once, and decided by the failure policy.
func TestReplyLostOfB63(t *testing.T) {
	t.Parallel()
	t.Run("client", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, redis8)
		testRepliesLost(t, s, startDoor(t, s.addr), func(addr string, l loss, retries int) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: retries, ReadTimeout: l.readTimeout})
		})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		s, _ := startClusterOfOne(t, redis8)
		d := startDoor(t, s.addr)
		s.announce(t, d.addr)
		testRepliesLost(t, s, d, func(addr string, l loss, retries int) redis.UniversalClient {
			// A ClusterClient has a second number of its own.
			return redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{addr}, MaxRetries: retries, MaxRedirects: retries, ReadTimeout: l.readTimeout,
			})
		})
	})
}

func testRepliesLost(
	t *testing.T, s *server, d *door, connect func(addr string, l loss, retries int) redis.UniversalClient,
) {
	d.mark = digestOf(t, "fixedwindow_take.lua")
	plan := ration.FixedWindow{Limit: 5, Window: time.Hour}
	for name, l := range losses() {
		for _, retries := range []int{0, 10} { // 0: the default
			t.Run(fmt.Sprintf("%s, retries %d", name, retries), func(t *testing.T) {
				rdb := connect(d.addr, l, retries)
				defer func() { _ = rdb.Close() }()
				prefix := freshPrefix()
				options := []ration.ClientOption{ration.WithPrefix(prefix)}
				if l.timeout > 0 {
					options = append(options, ration.WithTimeout(l.timeout))
				}
				client := newClient(t, rdb, options...)
				limiter, err := client.Limiter("limiter", plan)
				require.NoError(t, err)
				await(t, "a connection to a server that knows the script", func(ctx context.Context) error {
					_, err := byRedis(limiter.Allow(ctx, "tenant:0"))
					return err
				})
				passed, before := d.passed.Load(), countScriptCalls(t, s.rdb)

				d.spoil.Store(&l.spoil)
				decided, err := limiter.Allow(t.Context(), "tenant:42")
				require.NoError(t, err)
				require.ErrorIs(t, decided.Cause, ration.ErrUnavailable)
				require.Equal(t, ration.SourceFailClosed, decided.Source)
				require.False(t, decided.Allowed)
				client.Close() // waits for what the call has left behind

				require.Nil(t, d.spoil.Load(), "the call was not sent")
				require.EqualValues(t, 1, d.passed.Load()-passed, "sent")
				require.Equal(t, scriptCalls{started: 1}, countScriptCalls(t, s.rdb).minus(before))
				direct, err := newClient(t, s.rdb, ration.WithPrefix(prefix)).Limiter("limiter", plan)
				require.NoError(t, err)
				requireRemaining(t, direct, 4)
			})
		}
	}
}

// announce has the server of a cluster say that it is somewhere else.
func (s *server) announce(t *testing.T, addr string) {
	t.Helper()
	host, port, found := strings.Cut(addr, ":")
	require.True(t, found)
	require.NoError(t, s.rdb.ConfigSet(t.Context(), "cluster-announce-ip", host).Err())
	require.NoError(t, s.rdb.ConfigSet(t.Context(), "cluster-announce-port", port).Err())
}
