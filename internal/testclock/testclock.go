// Package testclock has the Clients on a redis client of package rationtest go by the clock of its server.
package testclock

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var clocks sync.Map // *redis.Client to func() time.Time

// Set has Clients that are made on a redis client go by a clock, until unset.
func Set(rdb *redis.Client, now func() time.Time) (unset func()) {
	clocks.Store(rdb, now)
	return func() { clocks.Delete(rdb) }
}

// Of is the clock that was set for a redis client, in microseconds since 1970; nil: none was.
func Of(rdb redis.UniversalClient) (micros func() int64) {
	single, ok := rdb.(*redis.Client)
	if !ok {
		return nil
	}
	set, _ := clocks.Load(single)
	if now, ok := set.(func() time.Time); ok {
		return func() int64 { return now().UnixMicro() }
	}
	return nil
}
