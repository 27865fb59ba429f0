package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration/cmd/ration/internal/breakage"
	"github.com/go-ration/ration/cmd/ration/internal/redisurl"
)

// victim is the Redis that is broken.
type victim struct {
	name      string
	newClient func() redis.UniversalClient
	set       func(context.Context, breakage.State) error
	close     func()
}

// openVictim reaches the Redis of a URL, through a proxy; without one it starts a server.
func openVictim(ctx context.Context, url string, latency time.Duration) (victim, error) {
	if url == "" {
		return startVictim(ctx, latency)
	}
	if strings.HasPrefix(strings.ToLower(url), "unix:") {
		return victim{}, errors.New("drill breaks TCP connections, and not those to a socket: name Redis by redis://host:port")
	}
	s, err := redisurl.Open(ctx, url)
	if err != nil {
		return victim{}, err
	}
	proxy := breakage.NewProxy(latency)
	return victim{
		name:      s.String() + ", breaking only connections to it",
		newClient: func() redis.UniversalClient { return s.NewClientThrough(proxy.Dial) },
		set:       func(_ context.Context, state breakage.State) error { return proxy.Set(state) },
		close:     proxy.Close,
	}, nil
}

func startVictim(ctx context.Context, latency time.Duration) (victim, error) {
	s, err := breakage.StartServer(ctx, latency)
	switch {
	case errors.Is(err, breakage.ErrNoServer):
		return victim{}, errors.New("drill needs redis-server in PATH, or --redis URL")
	case err != nil:
		return victim{}, err
	}
	return victim{
		name: "a redis-server of its own",
		newClient: func() redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: s.Address(), Dialer: s.Dial, ContextTimeoutEnabled: true, DialerRetries: 1})
		},
		set:   s.Set,
		close: s.Close,
	}, nil
}
