package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/go-ration/ration"
)

// plansOfManyKeys are those whose keys share script calls, with n units.
func plansOfManyKeys(n int64) []ration.Plan {
	return []ration.Plan{
		ration.FixedWindow{Limit: n, Window: 24 * time.Hour},
		ration.FixedWindow{Limit: n, Window: 24 * time.Hour, Aligned: true},
		ration.SlidingWindow{Limit: n, Window: 24 * time.Hour},
		ration.TokenBucket{Rate: ration.PerHour(1), Burst: n},
		ration.GCRA{Rate: ration.PerHour(1), Burst: n},
	}
}

// manyAnswers are what came of requests for one unit each, so many for each key, all made at once in random order.
type manyAnswers struct{ granted, denied, failed map[string]int64 }

func askForKeys(t *testing.T, limiter *ration.Limiter, keys []string, each int) manyAnswers {
	t.Helper()
	a := manyAnswers{make(map[string]int64), make(map[string]int64), make(map[string]int64)}
	order := make([]string, 0, len(keys)*each)
	for range each {
		order = append(order, keys...)
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, key := range order {
		all.Go(func() {
			d, err := byRedis(limiter.Allow(t.Context(), key))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				if !strings.Contains(err.Error(), "WRONGTYPE") && !isForbidden(err) {
					t.Error(err)
				}
				a.failed[key]++
			case d.Allowed:
				a.granted[key]++
			default:
				a.denied[key]++
			}
		})
	}
	all.Wait()
	return a
}

func isForbidden(err error) bool {
	text := err.Error()
	return strings.Contains(text, "may the user of Redis run every command") || strings.Contains(text, "Unknown Redis command") ||
		strings.Contains(text, "NOPERM") || strings.Contains(text, "ACL failure") || strings.Contains(text, "user executing the script")
}

func namesOfKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("key:", i)
	}
	return keys
}

// Keys that share script calls get what each would have got alone, on every server, and one where something else is stored costs the
// others nothing.
func TestKeysInOneScriptCall(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Helper()
		t.Parallel()
		s := startServer(t, image)
		for _, plan := range plansOfManyKeys(10) {
			rdb, calls := s.newRedis(t, nil), &scriptCounter{}
			rdb.AddHook(calls)
			prefix := freshPrefix()
			limiter, err := newClient(t, rdb, ration.WithPrefix(prefix)).Limiter("limiter", plan)
			require.NoError(t, err)
			_, err = byRedis(limiter.Allow(t.Context(), "broken"))
			require.NoError(t, err)
			broken := theKey(t, s.rdb, prefix)
			require.NoError(t, s.rdb.Del(t.Context(), broken).Err())
			require.NoError(t, s.rdb.ZAdd(t.Context(), broken, redis.Z{Score: 1, Member: "a"}).Err())

			const each = 12
			keys := append(namesOfKeys(100), "broken")
			before := calls.Load()
			a := askForKeys(t, limiter, keys, each)
			took := calls.Load() - before
			t.Logf("%v: %d script calls for %d requests", plan, took, each*len(keys))
			require.Less(t, took, int64(each*len(keys)/4), "%v: script calls are to be for several keys", plan)
			for _, key := range keys {
				if key == "broken" {
					require.EqualValues(t, each, a.failed[key], "%v", plan)
					continue
				}
				require.EqualValues(t, 10, a.granted[key], "%v: %s", plan, key)
				require.EqualValues(t, 2, a.denied[key], "%v: %s", plan, key)
			}
			require.EqualValues(t, 1, members(t, s.rdb, broken))
		}
	})
}

// A user who may not run all the commands of a script is charged at most once for each request, also where keys share script calls.
func TestForbiddenCommandsOfManyKeys(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Helper()
		t.Parallel()
		s := startServer(t, image)
		admin := s.rdb
		require.NoError(t, admin.Do(t.Context(), "acl", "setuser", "app", "on", ">app", "allkeys").Err())
		app := s.newRedis(t, func(o *redis.Options) { o.Username, o.Password = "app", "app" })
		for i, plan := range plansOfManyKeys(1000) {
			var refusals atomic.Int64
			script := []string{"fixedwindow_many", "fixedwindow_many", "slidingwindow_many", "tokenbucket_many", "gcra_many"}[i]
			for _, command := range readScript(t, script).uses {
				require.NoError(t, admin.Do(t.Context(), "acl", "setuser", "app", "+@all", "-"+strings.ToLower(command)).Err())
				prefix := freshPrefix()
				mine, err := newClient(t, admin, ration.WithPrefix(prefix)).Limiter("limiter", plan)
				require.NoError(t, err)
				his, err := newClient(t, app, ration.WithPrefix(prefix)).Limiter("limiter", plan)
				require.NoError(t, err)
				const each = 16
				keys := namesOfKeys(8)
				for _, key := range keys[:4] { // the others are new
					_, err := byRedis(mine.Allow(t.Context(), key))
					require.NoError(t, err)
				}
				a := askForKeys(t, his, keys, each)
				for j, key := range keys {
					had := int64(1000)
					if j < 4 {
						had--
					}
					d, err := byRedis(mine.Peek(t.Context(), key))
					require.NoError(t, err)
					require.Zero(t, a.denied[key])
					charged := had - d.Remaining
					require.GreaterOrEqual(t, charged, a.granted[key], "%v without %s", plan, command)
					require.LessOrEqual(t, charged, int64(each), "%v without %s: more than once", plan, command)
					refusals.Add(a.failed[key])
				}
			}
			require.Positive(t, refusals.Load())
		}
	})
}

// So it is where a server knows commands by other names.
func TestRenamedCommandsOfManyKeys(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"PEXPIRETIME", "PEXPIREAT"} {
		looked := 0
		s := startServer(t, redis7, testcontainers.WithCmd("redis-server", "--save", "", "--rename-command", command, ""))
		for _, plan := range plansOfManyKeys(1000) {
			limiter := newLimiter(t, s.rdb, plan)
			alone, err := newClient(t, s.rdb, ration.WithKeysPerCall(1)).Limiter("alone", plan)
			require.NoError(t, err)
			for name, l := range map[string]*ration.Limiter{"together": limiter, "alone": alone} {
				const each = 8
				keys := namesOfKeys(16)
				a := askForKeys(t, l, keys, each)
				for _, key := range keys {
					d, err := byRedis(l.Peek(t.Context(), key))
					if err != nil && isForbidden(err) { // to look, too
						continue
					}
					require.NoError(t, err)
					looked++
					charged := 1000 - d.Remaining
					require.GreaterOrEqual(t, charged, a.granted[key], "%v without %s, %s", plan, command, name)
					require.LessOrEqual(t, charged, int64(each), "%v without %s, %s: more than once", plan, command, name)
				}
			}
		}
		require.Positive(t, looked)
	}
}

// A *redis.Client of one node of a cluster is told that keys are not of one slot, and sends them by themselves.
func TestKeysOfSeveralSlots(t *testing.T) {
	t.Parallel()
	c := startCluster(t, redis8)
	limiter := newLimiter(t, c.newNode(t, c.ports[0]), ration.FixedWindow{Limit: 10, Window: 24 * time.Hour})
	var here []string // the keys of this node
	for i := 0; len(here) < 50; i++ {
		key := fmt.Sprint("key:", i)
		if d, err := limiter.AllowN(t.Context(), key, 0); err == nil && d.Cause == nil {
			here = append(here, key)
		}
	}
	told := func() int64 { return c.errorCounts(t)["CROSSSLOT"] }
	for round := range 2 {
		before := told()
		a := askForKeys(t, limiter, here, 4)
		for _, key := range here {
			require.EqualValues(t, 4, a.granted[key], key)
		}
		if round == 0 {
			require.Positive(t, told()-before)
		} else {
			require.Zero(t, told()-before)
		}
	}
	d, err := byRedis(limiter.Peek(t.Context(), here[0]))
	require.NoError(t, err)
	require.EqualValues(t, 2, d.Remaining)
}
