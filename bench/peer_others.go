package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// others are the other rate limiters, but for the baseline.
func others() []peer { return []peer{ululeLimiter(), throttledLimiter(), rueidisOf(gcra())} }

func ululeLimiter() peer {
	return peer{
		name:  "ulule/limiter",
		about: "github.com/ulule/limiter, a fixed window",
		open: func(rdb redis.UniversalClient, q quota) (limiter, error) {
			store, err := ululeredis.NewStore(rdb)
			if err != nil {
				return limiter{}, err
			}
			l := ulule.New(store, ulule.Rate{Period: q.window, Limit: q.units})
			return limiter{allow: func(ctx context.Context, key string) (bool, error) {
				c, err := l.Get(ctx, key)
				return !c.Reached, err
			}}, nil
		},
	}
}

func throttledLimiter() peer {
	return peer{
		name:  "throttled",
		about: "github.com/throttled/throttled, GCRA by compare-and-swap; where it gives up, for others were faster, it is asked again",
		open: func(rdb redis.UniversalClient, q quota) (limiter, error) {
			store, err := goredisstore.NewCtx(rdb, "throttled:")
			if err != nil {
				return limiter{}, err
			}
			l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
				MaxRate:  throttled.PerDuration(1, q.refill),
				MaxBurst: int(q.units) - 1,
			})
			if err != nil {
				return limiter{}, err
			}
			return limiter{allow: func(ctx context.Context, key string) (bool, error) {
				for {
					isDenied, _, err := l.RateLimitCtx(ctx, key, 1)
					if err == nil || !strings.Contains(err.Error(), gaveUp) || ctx.Err() != nil {
						return !isDenied && err == nil, err
					}
				}
			}}, nil
		},
	}
}

// gaveUp is in the error of a limiter of throttled that others were too fast for.
const gaveUp = "store updated rate limit data"

// rueidisOf is the script of one of ours, called through rueidis, which sends what many callers ask for at once over few connections.
func rueidisOf(p peer) peer {
	return peer{
		name:  "rueidis-" + p.name,
		about: "the script of " + p.name + ", called through github.com/redis/rueidis by hand, no timeout",
		open: func(rdb redis.UniversalClient, q quota) (limiter, error) {
			call, err := recordForHand(rdb, p, q)
			if err != nil {
				return limiter{}, err
			}
			args := make([]string, len(call.args))
			for i, arg := range call.args {
				args[i] = fmt.Sprint(arg)
			}
			client, err := rueidis.NewClient(rueidisOption(rdb.(*redis.Client).Options()))
			if err != nil {
				return limiter{}, err
			}
			return limiter{
				allow: func(ctx context.Context, key string) (bool, error) {
					cmd := client.B().Evalsha().Sha1(call.digest).Numkeys(1).Key(call.stored(key)).Arg(args...).Build()
					reply, err := client.Do(ctx, cmd).AsIntSlice()
					return err == nil && reply[0] > 0, err
				},
				close: client.Close,
			}, nil
		},
	}
}

// rueidisOption has rueidis ask the server that a go-redis client asks.
func rueidisOption(o *redis.Options) rueidis.ClientOption {
	dial := func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, o.Network, o.Addr)
		if err != nil || o.TLSConfig == nil {
			return conn, err
		}
		return tls.Client(conn, o.TLSConfig), nil
	}
	return rueidis.ClientOption{
		InitAddress:       []string{"redis:0"}, // which dial does not look at
		DialCtxFn:         dial,
		Username:          o.Username,
		Password:          o.Password,
		SelectDB:          o.DB,
		ForceSingleClient: true,
		DisableCache:      true,
	}
}
