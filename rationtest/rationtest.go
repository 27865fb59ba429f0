// Package rationtest gives tests a [ration.Client] on an embedded Redis whose clock the test sets, so that testing a limit
// needs no server and no sleep:
//
//	server := rationtest.New(t)
//	search, _ := server.Client.Limiter("search", ration.FixedWindow{Limit: 1, Window: time.Minute})
//	// … the first request passes, the second is denied …
//	server.Advance(time.Minute)
//	// … and now one passes again.
//
// The embedded Redis (miniredis) runs the same scripts as a real one. It is a test double: it keeps expiries in a way of its
// own, and knows nothing of slots.
package rationtest

import (
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/testclock"
)

// Server is an embedded Redis with a clock of its own, and a Client on it. It is safe for concurrent use.
type Server struct {
	// Client keeps its counts in the embedded Redis.
	Client *ration.Client

	tb    testing.TB
	redis *miniredis.Miniredis
	mu    sync.Mutex
	now   time.Time
}

// start is where the clock of every Server begins: a whole minute, hour and day.
var start = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// New starts a Server whose clock stands still at the start of a day. Client and server are closed when the test ends. The
// options are those of [ration.New]; unless they set another, the timeout is 10 s, so that a slow machine fails no test.
func New(tb testing.TB, options ...ration.ClientOption) *Server {
	tb.Helper()
	s := &Server{tb: tb, redis: miniredis.NewMiniRedis(), now: start}
	s.redis.SetTime(s.now)
	s.redis.ClockTTL(true)
	if err := s.redis.Start(); err != nil {
		tb.Fatalf("rationtest: start the embedded Redis: %v", err)
	}
	tb.Cleanup(s.redis.Close)
	rdb := s.NewRedis(tb)
	client, err := ration.New(rdb, append([]ration.ClientOption{ration.WithTimeout(10 * time.Second)}, options...)...)
	if err != nil {
		tb.Fatalf("rationtest: %v", err)
	}
	tb.Cleanup(client.Close)
	s.Client = client
	return s
}

// NewRedis makes a redis client on the embedded Redis, for a second [ration.Client] of a fleet, or for a look at what is
// stored. Clients on it go by the server's clock, too. It is closed when the test ends.
func (s *Server) NewRedis(tb testing.TB) *redis.Client {
	tb.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	unset := testclock.Set(rdb, s.Now)
	tb.Cleanup(func() {
		unset()
		_ = rdb.Close()
	})
	return rdb
}

// Now is the server's time.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Advance moves the server's clock on by d: buckets fill, windows end, keys expire; and what a Client remembers, holds or counts by itself
// ages with them: denials, leases, and the shares that FailLocal grants; what a lease had left goes back in the background soon
// after. Timeouts and breakers go by real time. Limits keep time in microseconds, so
// d is rounded down to one. A negative d fails the test.
func (s *Server) Advance(d time.Duration) {
	if d < 0 {
		s.tb.Fatalf("rationtest: Advance by %v: the clock only goes on", d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d.Truncate(time.Microsecond))
	s.redis.SetTime(s.now)
}
