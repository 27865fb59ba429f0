package integration

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// B67: a redis client without a connection that tries in vain to make one, again and again, costs its callers the timeout and not
// the product of its own; and nothing is left behind when that is over.
//
// It is not parallel: it counts goroutines, and measures time.
func TestDialsThatHangOfB67(t *testing.T) {
	const dialTimeout = 250 * time.Millisecond
	s := startServer(t, redis8)
	dialer := &hangingDialer{}
	for name, c := range map[string]struct {
		hang   func(t *testing.T) (lift func())
		dialer *hangingDialer
	}{
		"the server stands still": {hang: s.box.pause},
		"dialing hangs":           {hang: dialer.hang, dialer: dialer},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := s.newRedis(t, func(o *redis.Options) {
				o.DialTimeout, o.ReadTimeout, o.MaxRetries = dialTimeout, time.Second, 3
				if c.dialer != nil {
					o.Dialer = c.dialer.dial
				}
			})
			client := newClient(t, rdb, ration.WithTimeout(hangTimeout), withoutBreaker())
			limiter, err := client.Limiter("limiter", ration.FixedWindow{Limit: 1000, Window: time.Hour})
			require.NoError(t, err)
			ofRedis := goroutinesIn(redisPackage)

			lift := c.hang(t)
			calls := makeCalls(limiter, "tenant:42", 1, 20)
			lift()
			for _, call := range calls {
				call.requireDecidedWithout(t)
				require.ErrorIs(t, call.decision.Cause, ration.ErrTimeout)
			}
			requireInTime(t, calls, hangTimeout, 75*time.Millisecond, dialTimeout)

			client.Close()
			awaitGoroutines(t, ofRedis)
		})
	}
}

// hangingDialer makes connections for a redis client, or lets it wait.
type hangingDialer struct {
	mu      sync.Mutex
	release chan struct{} // nil: it does not hang
}

// hang lets the redis client wait for connections, until the function it answers is called, or the test ends.
func (h *hangingDialer) hang(t *testing.T) (lift func()) {
	t.Helper()
	release := make(chan struct{})
	set := func(c chan struct{}) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.release = c
	}
	set(release)
	lift = sync.OnceFunc(func() {
		set(nil)
		close(release)
	})
	t.Cleanup(lift)
	return lift
}

func (h *hangingDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	h.mu.Lock()
	release := h.release
	h.mu.Unlock()
	if release != nil {
		select {
		case <-release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}
