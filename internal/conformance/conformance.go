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

// allow takes n units, which must be granted with so many remaining.
func allow(at time.Duration, n, remaining int64) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		d := r.take(ration.Request{Key: r.key, Cost: n})
		require.True(r, d.Allowed, "at +%v: %+v", r.at, d)
		require.Equal(r, n, d.Granted, "at +%v: granted", r.at)
		require.Equal(r, remaining, d.Remaining, "at +%v: remaining", r.at)
		require.Zero(r, d.RetryAfter, "at +%v: retryAfter", r.at)
	}}
}

// deny takes n units, which must be denied until `retry` later.
func deny(at time.Duration, n, remaining int64, retry time.Duration) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		r.requireDenied(r.take(ration.Request{Key: r.key, Cost: n}), remaining, retry)
	}}
}

// requireDenied holds a denial to what it must say. Of one that was remembered, what remains is what was known then, and in a log the wait
// is that of the lesser cost that was denied then.
func (r *run) requireDenied(d ration.Decision, remaining int64, retry time.Duration) {
	r.Helper()
	require.False(r, d.Allowed, "at +%v: %+v", r.at, d)
	require.Zero(r, d.Granted, "at +%v: granted", r.at)
	isRemembered := d.Source == ration.SourceDenyCache
	if isRemembered {
		require.LessOrEqual(r, d.Remaining, remaining, "at +%v: remaining", r.at)
	} else {
		require.Equal(r, remaining, d.Remaining, "at +%v: remaining", r.at)
	}
	if _, isLog := r.plan.(ration.SlidingLog); isLog && isRemembered {
		require.LessOrEqual(r, d.RetryAfter, retry, "at +%v: retryAfter", r.at)
	} else {
		require.Equal(r, retry, d.RetryAfter, "at +%v: retryAfter", r.at)
	}
}

// denies takes n units, which must be denied.
func denies(at time.Duration, n int64) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		require.False(r, r.take(ration.Request{Key: r.key, Cost: n}).Allowed, "at +%v", r.at)
	}}
}

// refund gives back what was granted by the i-th grant of the scenario, counted from 0.
func refund(at time.Duration, i int) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		require.NoError(r, r.limiter.Refund(r.Context(), r.granted[i]), "at +%v", r.at)
	}}
}

// peeks looks without taking.
func peeks(at time.Duration) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		_, err := r.limiter.Peek(r.Context(), r.key)
		require.NoError(r, err)
	}}
}

// silent is a step that writes nothing.
func silent(s step) step {
	return step{at: s.at, stored: true, do: func(r *run) {
		r.Helper()
		before, expiresBefore := r.stored()
		s.do(r)
		after, expiresAfter := r.stored()
		require.Equal(r, before, after, "at +%v: stored", r.at)
		require.Equal(r, expiresBefore, expiresAfter, "at +%v: expiry", r.at)
	}}
}

// allowUnder takes a unit under another plan of the same kind.
func allowUnder(plan ration.Plan, at time.Duration, n, remaining int64) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		d := r.take(ration.Request{Key: r.key, Cost: n, Plan: plan})
		require.True(r, d.Allowed, "at +%v: %+v", r.at, d)
		require.Equal(r, remaining, d.Remaining, "at +%v: remaining", r.at)
	}}
}

// passUnder takes n units under another plan of the same kind, which must be granted.
func passUnder(plan ration.Plan, at time.Duration, n int64) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		d := r.take(ration.Request{Key: r.key, Cost: n, Plan: plan})
		require.True(r, d.Allowed, "at +%v: %+v", r.at, d)
	}}
}

// denyUnder is deny under another plan of the same kind.
func denyUnder(plan ration.Plan, at time.Duration, n, remaining int64, retry time.Duration) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		r.requireDenied(r.take(ration.Request{Key: r.key, Cost: n, Plan: plan}), remaining, retry)
	}}
}

// upTo takes up to n units, of which so many must be granted.
func upTo(at time.Duration, n, granted, remaining int64, retry time.Duration) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		d, err := r.limiter.AllowUpTo(r.Context(), r.key, n)
		require.NoError(r, err)
		require.Equal(r, granted, d.Granted, "at +%v: granted", r.at)
		require.Equal(r, granted > 0 || n == 0, d.Allowed, "at +%v: allowed", r.at)
		if remaining != anyNumber {
			require.Equal(r, remaining, d.Remaining, "at +%v: remaining", r.at)
		}
		require.Equal(r, retry, d.RetryAfter, "at +%v: retryAfter", r.at)
	}}
}

// anyNumber may remain.
const anyNumber = -1

// peek looks without taking.
func peek(at time.Duration, remaining int64, retry, reset time.Duration) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		d, err := r.limiter.Peek(r.Context(), r.key)
		require.NoError(r, err)
		require.Equal(r, remaining > 0, d.Allowed, "at +%v: allowed", r.at)
		require.Zero(r, d.Granted, "at +%v: granted", r.at)
		require.Equal(r, remaining, d.Remaining, "at +%v: remaining", r.at)
		require.Equal(r, retry, d.RetryAfter, "at +%v: retryAfter", r.at)
		require.Equal(r, reset, d.ResetAfter, "at +%v: resetAfter", r.at)
	}}
}

// never takes n units, more than the plan can ever grant.
func never(at time.Duration, n int64) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		_, err := r.limiter.Take(r.Context(), ration.Request{Key: r.key, Cost: n})
		require.ErrorIs(r, err, ration.ErrCostExceedsLimit, "at +%v", r.at)
	}}
}

// invalid takes a negative number of units.
func invalid(at time.Duration, n int64) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		_, err := r.limiter.Take(r.Context(), ration.Request{Key: r.key, Cost: n})
		require.ErrorIs(r, err, ration.ErrInvalidCost, "at +%v", r.at)
	}}
}

// expires reads the lifetime left of the stored key, in ms.
func expires(at time.Duration, least, most int64) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		left, err := r.backend.Redis().Do(r.Context(), "PTTL", r.storedKey()).Int64()
		require.NoError(r, err)
		require.GreaterOrEqual(r, left, least, "at +%v: PTTL", r.at)
		require.LessOrEqual(r, left, most, "at +%v: PTTL", r.at)
	}}
}

// absent finds no stored key.
func absent(at time.Duration) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		require.Empty(r, r.storedKeys(), "at +%v", r.at)
	}}
}

// persist takes the lifetime of the stored key away.
func persist(at time.Duration) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		require.NoError(r, r.backend.Redis().Persist(r.Context(), r.storedKey()).Err())
	}}
}

// members counts those of the stored sorted set.
func members(at time.Duration, n int64) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		got, err := r.backend.Redis().ZCard(r.Context(), r.storedKey()).Result()
		require.NoError(r, err)
		require.Equal(r, n, got, "at +%v: members", r.at)
	}}
}

// countdown takes n units one by one, at one moment, of which none is left then.
func countdown(at time.Duration, n int64) []step {
	var steps []step
	for left := n - 1; left >= 0; left-- {
		steps = append(steps, allow(at, 1, left))
	}
	return steps
}

// back marks a step before which the clock goes back.
func back(s step) step {
	s.stepsBack = true
	return s
}

// repeat does a step several times.
func repeat(n int, s step) []step {
	steps := make([]step, n)
	for i := range steps {
		steps[i] = s
	}
	return steps
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
