package ration

import (
	"context"
	"sync/atomic"
	"time"
)

// stateReloader is a redis client that knows which node of a cluster serves which slots: a *redis.ClusterClient.
type stateReloader interface{ ReloadState(ctx context.Context) }

// slotMap has a redis client look again which node serves which slots, where a call got no answer. By itself go-redis does so
// where a node sends it to another one, and once a minute: a master that is gone sends nobody anywhere, and until the minute is
// over its keys would be asked for where it was.
type slotMap struct {
	client stateReloader // nil: not a cluster's
	looked atomic.Int64  // nanoseconds since start; 0: never
}

// relookAfter is the time from one look to the next: a cluster in distress is not asked by every call.
const relookAfter = int64(500 * time.Millisecond)

var start = time.Now()

// doubt starts a look in the background, unless there was one just now.
func (m *slotMap) doubt(ctx context.Context) {
	if m.client == nil {
		return
	}
	now, looked := int64(time.Since(start)), m.looked.Load()
	if (looked == 0 || now-looked >= relookAfter) && m.looked.CompareAndSwap(looked, now) {
		m.client.ReloadState(context.WithoutCancel(ctx))
	}
}
