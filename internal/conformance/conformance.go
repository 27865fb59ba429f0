// Package conformance holds what every way of deciding must answer, whatever it runs on: a table of scenarios, each a plan
// and a series of operations at moments of the server's clock, with the exact decisions.
//
// A test makes a Backend and calls Run:
//
//	conformance.Run(t, backend)
//
// Backends are a ration.Client on some server whose clock the test sets, and the twins in process.
package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// T0 is when scenarios begin: a whole minute.
var T0 = time.Unix(1_700_000_040, 0).UTC()

// Backend is something that decides. Scenarios run on it one after the other, each with keys and limiter names of its own.
type Backend interface {
	// SetTime sets the clock that decisions are made by.
	SetTime(now time.Time)
	// Limiter makes a limiter, which the backend disposes of.
	Limiter(t *testing.T, name string, plan ration.Plan) Limiter
	// Redis is where the counts are kept; nil for a backend that keeps them in this process, on which scenarios about
	// what is stored do not run.
	Redis() redis.UniversalClient
	// StepsBack says whether the clock can be set back, the lifetimes of keys with it.
	StepsBack() bool
}

// Limiter is the part of *ration.Limiter that scenarios use.
type Limiter interface {
	Take(ctx context.Context, r ration.Request) (ration.Decision, error)
	AllowUpTo(ctx context.Context, key string, n int64) (ration.Decision, error)
	Peek(ctx context.Context, key string) (ration.Decision, error)
	Refund(ctx context.Context, d ration.Decision) error
}

// scenario is a plan and what happens to one fresh key of it.
type scenario struct {
	name  string
	plan  ration.Plan
	steps []step
}

// step is something done at a moment, and what must come of it.
type step struct {
	at time.Duration // since T0
	do func(r *run)

	stored    bool // needs a Redis
	stepsBack bool // needs a clock that goes back
}

// run is a scenario under way.
type run struct {
	*testing.T
	backend Backend
	limiter Limiter
	plan    ration.Plan
	key     string
	at      time.Duration
	granted []ration.Decision
}

var fresh atomic.Int64

// Run runs every scenario that the backend can run, one after the other.
func Run(t *testing.T, backend Backend) {
	t.Helper()
	ran := 0
	for _, s := range scenarios() {
		if !runs(backend, s) {
			continue
		}
		ran++
		t.Run(s.name+"/"+s.plan.String(), func(t *testing.T) { runScenario(t, backend, s) })
	}
	require.NotZero(t, ran)
}

func runScenario(t *testing.T, backend Backend, s scenario) {
	t.Helper()
	n := fresh.Add(1)
	backend.SetTime(T0.Add(s.steps[0].at))
	r := &run{
		T:       t,
		backend: backend,
		limiter: backend.Limiter(t, fmt.Sprintf("scenario-%d-%d", time.Now().UnixNano(), n), s.plan),
		plan:    s.plan,
		key:     fmt.Sprintf("key-%d", n),
	}
	for _, step := range s.steps {
		r.at = step.at
		backend.SetTime(T0.Add(step.at))
		step.do(r)
	}
}

func runs(backend Backend, s scenario) bool {
	if _, wraps := backend.(inMulti); wraps && !inMultiToo(s.plan) {
		return false
	}
	for _, step := range s.steps {
		if step.stored && backend.Redis() == nil || step.stepsBack && !backend.StepsBack() {
			return false
		}
	}
	return true
}

func (r *run) take(request ration.Request) ration.Decision {
	r.Helper()
	d, err := r.limiter.Take(r.Context(), request)
	require.NoError(r, err, "at +%v", r.at)
	require.NoError(r, d.Cause)
	require.GreaterOrEqual(r, d.Remaining, int64(0))
	require.LessOrEqual(r, d.Remaining, d.Limit)
	if d.Granted > 0 {
		r.granted = append(r.granted, d)
	}
	return d
}

// storedKeys are the keys in Redis that hold something of the scenario's key, on whatever server.
func (r *run) storedKeys() []string {
	r.Helper()
	var mu sync.Mutex
	var keys []string
	collect := func(ctx context.Context, node *redis.Client) error {
		found, err := node.Keys(ctx, "*").Result()
		mu.Lock()
		defer mu.Unlock()
		for _, key := range found {
			if strings.HasSuffix(key, ":{"+r.key+"}") {
				keys = append(keys, key)
			}
		}
		return err
	}
	switch rdb := r.backend.Redis().(type) {
	case *redis.Client:
		require.NoError(r, collect(r.Context(), rdb))
	case *redis.ClusterClient:
		require.NoError(r, rdb.ForEachMaster(r.Context(), collect))
	case *redis.Ring:
		require.NoError(r, rdb.ForEachShard(r.Context(), collect))
	default:
		r.Fatalf("the servers of a %T are not known", rdb)
	}
	return keys
}

func (r *run) storedKey() string {
	r.Helper()
	keys := r.storedKeys()
	require.Len(r, keys, 1, "at +%v: stored keys", r.at)
	return keys[0]
}

// stored is what the scenario's key holds, and when it expires.
func (r *run) stored() (value any, expires time.Duration) {
	r.Helper()
	return r.held(r.storedKey())
}

// held is what a key holds, and when it expires.
func (r *run) held(key string) (value any, expires time.Duration) {
	r.Helper()
	rdb := r.backend.Redis()
	kind, err := rdb.Type(r.Context(), key).Result()
	require.NoError(r, err)
	switch kind {
	case "string":
		value, err = rdb.Get(r.Context(), key).Result()
	case "hash":
		value, err = rdb.HGetAll(r.Context(), key).Result()
	case "zset":
		value, err = rdb.ZRangeWithScores(r.Context(), key, 0, -1).Result()
	default:
		r.Fatalf("a %s is stored", kind)
	}
	require.NoError(r, err)
	expires, err = rdb.PExpireTime(r.Context(), key).Result()
	require.NoError(r, err)
	return value, expires
}
