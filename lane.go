package ration

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// lane is the way to one node of Redis: the calls on it, and whether it is open. So a node that does not answer costs
// its own keys, and those of other nodes nothing.
type lane struct {
	node    string // its address; empty: whatever the redis client asks
	batcher *batcher
	breaker *breaker
}

// refused is why no call of a context goes now, not even as a probe: the context is over, whatever the breaker says, or that is open.
func (l *lane) refused(ctx context.Context) error {
	if err := orBackground(ctx).Err(); err != nil {
		return err
	}
	return l.breaker.refused()
}

// run runs a call, unless the breaker is open.
func (l *lane) run(c *call) error { return l.breaker.run(c.ask, c.timeout) }

// lanes are the ways of a client: one for each master of a Redis Cluster, and of any other redis client just one.
//
// Which node has a slot is learnt by the goroutines that send them, for to ask the redis client may take as long as a call until it
// has found out what nodes there are. Until then all slots go by one lane; from then on a slot that is not known is asked for at once.
type lanes struct {
	open    func(node string, shares bool) *lane
	probe   time.Duration // Breaker.Probe
	one     *lane         // of all slots, or of those not known
	cluster masterFinder
	isReady atomic.Bool            // the redis client knows the nodes
	slots   []atomic.Pointer[lane] // nil: not a cluster

	mu     sync.Mutex
	byNode map[string]*lane
}

// masterFinder is a redis client that knows the masters of a cluster: a *redis.ClusterClient.
type masterFinder interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
}

// addressOf is that of the only server of a redis client; empty where there are several.
func addressOf(rdb redis.UniversalClient) string {
	if single, ok := rdb.(*redis.Client); ok {
		return single.Options().Addr
	}
	return ""
}

const clusterSlots = 16384

// maxLanes bounds the nodes that are remembered. Nodes come and go, each under a new address.
const maxLanes = 1024

// newLanes makes those of an executor. Calls share flushes where all are for one server: one that does not answer would have the calls for
// others wait.
//
// Only where the redis client has no other server, keys that need not be of one slot share script calls.
func newLanes(e *executor, c clientConfig) *lanes {
	l := &lanes{probe: c.breaker.Probe}
	l.open = func(node string, shares bool) *lane {
		return &lane{
			node:    node,
			batcher: &batcher{executor: e, shares: shares, most: c.maxInFlight},
			breaker: newBreaker(node, c.breaker, e.reporter.breakerChanged),
		}
	}
	_, isSingle := e.rdb.(*redis.Client)
	l.one = l.open(addressOf(e.rdb), isSingle)
	if isSingle {
		l.one.batcher.keys.Store(int32(c.keysPerCall))
	}
	if cluster, ok := e.rdb.(masterFinder); ok {
		l.cluster, l.slots, l.byNode = cluster, make([]atomic.Pointer[lane], clusterSlots), make(map[string]*lane)
	}
	return l
}

// each does something with each lane.
func (l *lanes) each(do func(*lane)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do(l.one)
	for _, lane := range l.byNode {
		do(lane)
	}
}

// inFlight is how many calls are on their way.
func (l *lanes) inFlight() (n int64) {
	l.each(func(lane *lane) { n += int64(lane.batcher.callsInFlight()) })
	return n
}

// refuse ends the calls that have not been sent.
func (l *lanes) refuse(err error) {
	l.each(func(lane *lane) { lane.batcher.refuse(err) })
}

// breakersOpen is how many of the nodes that have slots are not asked, but for probes.
func (l *lanes) breakersOpen() (n int64) {
	known := map[*lane]bool{l.one: true}
	for i := range l.slots {
		if lane := l.slots[i].Load(); lane != nil {
			known[lane] = true
		}
	}
	for lane := range known {
		if lane.breaker.isOpen() {
			n++
		}
	}
	return n
}

// of is the lane of a stored key, as far as known.
func (l *lanes) of(key string) *lane {
	if l.slots == nil || key == "" {
		return l.one
	}
	if known := l.slots[slot(key)].Load(); known != nil {
		return known
	}
	if !l.isReady.Load() {
		return l.one
	}
	return l.ask(ended, key)
}

// ended is a context that is over: what would take any time fails.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// learn asks the redis client which node has the slot of a key that is asked for, for later calls. It may take as long as ctx lasts.
func (l *lanes) learn(ctx context.Context, key string) {
	if l.slots == nil || key == "" {
		return
	}
	if l.ask(ctx, key) != l.one {
		l.isReady.Store(true)
	}
}

// ask asks the redis client which node has the slot of a key, and is the lane to it; or that of those not known.
func (l *lanes) ask(ctx context.Context, key string) *lane {
	node, err := l.cluster.MasterForKey(ctx, key)
	if err != nil {
		return l.one
	}
	place := &l.slots[slot(key)]
	known := place.Load()
	if address := node.Options().Addr; known == nil || known.node != address {
		known = l.to(address)
		place.Store(known)
	}
	return known
}

// to is the lane to a node.
func (l *lanes) to(node string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byNode[node]; known != nil {
		return known
	}
	if len(l.byNode) >= maxLanes {
		clear(l.byNode) // those in use are known by their slots; at worst a node has two lanes for a while
	}
	opened := l.open(node, true)
	l.byNode[node] = opened
	return opened
}
