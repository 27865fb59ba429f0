// Package embedded runs a Redis inside this process (miniredis), reached without a port.
package embedded

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Server is an embedded Redis. Its clock is that of the machine until SetTime stops it. It is safe for concurrent use.
type Server struct {
	redis *miniredis.Miniredis

	mu      sync.Mutex
	stopped bool // the clock
}

// New makes a Server. Whoever makes it closes it.
func New() *Server {
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true)
	return &Server{redis: redis}
}

// NewClient makes a client of the server. Whoever makes it closes it.
func (s *Server) NewClient() *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr:                  "embedded",
		Dialer:                func(context.Context, string, string) (net.Conn, error) { return s.redis.Dial() },
		ContextTimeoutEnabled: true,
		// Nothing gets lost inside a process, however slow the machine is.
		ReadTimeout:  -1,
		WriteTimeout: -1,
		// Otherwise go-redis looks the address up, to know what kind of address to be told of in maintenance.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	rdb.AddHook(clockHook{s})
	return rdb
}

// SetTime stops the server's clock at t.
func (s *Server) SetTime(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.redis.SetTime(t)
}

// Flush deletes all keys.
func (s *Server) Flush() { s.redis.FlushAll() }

// Close stops the server.
func (s *Server) Close() { s.redis.Close() }

// tick sets the clock to the machine's, unless it is stopped. Left to itself miniredis would let time go on within a
// script, so that a key may expire between two of its commands, which it does in no real Redis. A clock that is set waits
// for a script to end.
func (s *Server) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.redis.SetTime(time.Now())
	}
}

// clockHook lets the clock tick before each command.
type clockHook struct{ server *Server }

func (h clockHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h clockHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		h.server.tick()
		return next(ctx, command)
	}
}

func (h clockHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		h.server.tick()
		return next(ctx, commands)
	}
}
