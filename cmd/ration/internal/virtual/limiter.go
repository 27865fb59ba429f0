// Package virtual decides requests in virtual time: by the scripts that a real Redis runs, in an embedded one whose clock is
// set to the time of each request.
package virtual

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/embedded"
)

// Limiter is a limiter on an embedded Redis of its own, whose clock stands still between decisions. It is for one goroutine.
type Limiter struct {
	server  *embedded.Server
	rdb     *redis.Client
	client  *ration.Client
	limiter *ration.Limiter
}

// New makes a Limiter that has not decided anything yet. Whoever makes it closes it.
func New(plan ration.Plan) (*Limiter, error) {
	l := &Limiter{server: embedded.New()}
	l.rdb = l.server.NewClient()
	// Nothing is decided late here, but a busy machine may be slow; and no denial is remembered, for the clock of this process goes
	// on between decisions, which that of the Redis does not.
	var err error
	l.client, err = ration.New(l.rdb,
		ration.WithTimeout(time.Minute), ration.OnFailure(ration.FailClosed()), ration.WithDenyCache(0))
	if err == nil {
		l.limiter, err = l.client.Limiter("virtual", plan)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// AllowAt decides a request for `cost` units at a time, which is not before that of the last decision since Forget.
func (l *Limiter) AllowAt(ctx context.Context, at time.Time, key string, cost int64) (bool, error) {
	l.server.SetTime(at)
	d, err := l.limiter.AllowN(ctx, key, cost)
	if err == nil {
		err = d.Cause
	}
	if err != nil {
		return false, fmt.Errorf("decide a request of %v: %w", at, err)
	}
	return d.Allowed, nil
}

// Forget makes all keys as good as new.
func (l *Limiter) Forget() { l.server.Flush() }

// Close stops the Redis.
func (l *Limiter) Close() {
	l.client.Close()
	_ = l.rdb.Close()
	l.server.Close()
}
