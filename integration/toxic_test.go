package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// road is a way to a server that may be long, narrow or blocked: a toxiproxy in this process.
type road struct {
	addr  string
	proxy *toxiproxy.Proxy
}

func startRoad(t *testing.T, target string) *road {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", target)
	require.NoError(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	return &road{addr: proxy.Listen, proxy: proxy}
}

// The directions of a road.
const (
	ofCommands = "upstream"
	ofReplies  = "downstream"
)

// poison does something to the bytes that go in one direction, on the connections that there are and on new ones.
func (r *road) poison(t *testing.T, direction, toxic, attributes string) (lift func()) {
	t.Helper()
	added, err := r.proxy.Toxics.AddToxicJson(strings.NewReader(
		fmt.Sprintf(`{"type": %q, "stream": %q, "attributes": {%s}}`, toxic, direction, attributes)))
	require.NoError(t, err)
	return func() { require.NoError(t, r.proxy.Toxics.RemoveToxic(context.Background(), added.Name)) }
}

// delayReplies has each reply take so much longer.
func (r *road) delayReplies(t *testing.T, by time.Duration) (lift func()) {
	t.Helper()
	return r.poison(t, ofReplies, "latency", fmt.Sprintf(`"latency": %d`, by.Milliseconds()))
}

// trickleReplies lets one byte of the replies through in a second.
func (r *road) trickleReplies(t *testing.T) (lift func()) {
	t.Helper()
	return r.poison(t, ofReplies, "slicer", fmt.Sprintf(`"average_size": 1, "delay": %d`, time.Second.Microseconds()))
}

// loseAll loses whatever is sent in either direction, without closing a connection until that is over.
func (r *road) loseAll(t *testing.T) (lift func()) {
	t.Helper()
	const never = `"timeout": 0`
	commands, replies := r.poison(t, ofCommands, "timeout", never), r.poison(t, ofReplies, "timeout", never)
	return func() {
		commands()
		replies()
	}
}

// resetAll resets each connection when there is a reply on it.
func (r *road) resetAll(t *testing.T) (lift func()) {
	t.Helper()
	return r.poison(t, ofReplies, "reset_peer", `"timeout": 0`)
}

// refuse closes all connections, and refuses new ones, as where a server's process has ended.
func (r *road) refuse(t *testing.T) (lift func()) {
	t.Helper()
	r.proxy.Stop()
	return func() { require.NoError(t, r.proxy.Start()) }
}
