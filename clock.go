package ration

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration/internal/testclock"
)

// clock is the time in this process, in microseconds since 1970, which no clock set back or forth changes: the wall clock's when the
// process began, and from there the monotonic one's. By it goes what is counted and remembered here; timeouts go by the real one.
type clock func() (micros int64)

// startMicros is the time at start by the wall clock.
var startMicros = start.UnixMicro()

// localMicros is the clock of every Client, but in tests of users.
func localMicros() int64 { return startMicros + int64(time.Since(start)/time.Microsecond) }

// clockOf is the clock of a Client on a redis client: that of its server, if that is one of package rationtest.
func clockOf(rdb redis.UniversalClient) clock {
	if micros := testclock.Of(rdb); micros != nil {
		return micros
	}
	return localMicros
}
