package drill

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration"
)

// instance is one of a service in this process, with a redis client and a ration.Client of its own.
type instance struct {
	number  int
	key     string
	rdb     redis.UniversalClient
	client  *ration.Client
	limiter *ration.Limiter
}

// limiterName is what the limiter is called in Redis.
const limiterName = "drill"

func newInstance(config Config, number int, key string) (*instance, error) {
	i := &instance{number: number, key: key, rdb: config.NewRedis()}
	var err error
	i.client, err = ration.New(i.rdb, ration.WithTimeout(config.Timeout), ration.OnFailure(config.Policy.failure()),
		ration.WithFleetSize(config.Instances), ration.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		_ = i.rdb.Close()
		return nil, err
	}
	if i.limiter, err = i.client.Limiter(limiterName, config.Plan); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

func (i *instance) close() {
	i.client.Close()
	_ = i.rdb.Close()
}

const (
	// callers of an instance, so that some may wait for Redis while others are decided at once.
	callers = 16
	// grace is how late a request may be offered, and count as one at all.
	grace = time.Second
)

// offer offers requests at a rate, evenly, until ctx ends: each when it is due, whether those before it are decided or not, as long
// as a caller is free. It is due somewhere within its share of the time, so that no instance is always the first to find a token.
func (i *instance) offer(ctx context.Context, rate float64, to *recorder) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			timer := time.NewTimer(0)
			defer timer.Stop()
			for {
				n := float64(next.Add(1)-1) + rand.Float64()
				due := to.start.Add(time.Duration(n / rate * float64(time.Second)))
				timer.Reset(time.Until(due))
				select {
				case <-ctx.Done():
					return
				case <-timer.C:
				}
				if time.Since(due) > grace {
					to.late()
					continue
				}
				begin := time.Now()
				d, err := i.limiter.Allow(context.Background(), i.key)
				to.decided(i.number, time.Since(begin), d, err)
			}
		})
	}
	running.Wait()
}
