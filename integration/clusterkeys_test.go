package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// B59: on a cluster every key has a counter of its own, in the slot that it ought to be in, and reaches it at once.
func TestClusterKeys(t *testing.T) {
	onEachCluster(t, testClusterKeys)
}

// The same on a cluster that runs already, of six servers with ports in a row: that of docker-compose.yml.
func TestRunningClusterKeys(t *testing.T) {
	first := os.Getenv("RATION_CLUSTER_PORT")
	if first == "" {
		t.Skip("NOT TESTED here: RATION_CLUSTER_PORT names no port of a running cluster; make smoke tests it")
	}
	port, err := strconv.Atoi(first)
	require.NoError(t, err)
	c := &cluster{}
	for i := range clusterNodes {
		c.ports = append(c.ports, port+i)
	}
	c.rdb = c.newRedis(t, nil)
	testClusterKeys(t, c)
}

func testClusterKeys(t *testing.T, c *cluster) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	keys := slices.Concat(awkwardKeys(), randomKeys(rand.New(rand.NewPCG(seed, 0)), 1000))
	slices.Sort(keys)
	keys = slices.Compact(keys)

	before := c.errorCounts(t)
	for _, plan := range []struct {
		ration.Plan
		kind, numbers string // in its stored keys
	}{
		{ration.FixedWindow{Limit: 1, Window: time.Hour}, "fw1", ""},
		{ration.SlidingWindow{Limit: 1, Window: time.Hour}, "sw1", ""},
		{ration.SlidingLog{Limit: 1, Window: time.Hour}, "sl1", ""},
		{ration.TokenBucket{Rate: ration.PerHour(1), Burst: 1}, "tb1", ""},
		{ration.GCRA{Rate: ration.PerHour(1), Burst: 1}, "gc1", "-1-" + strconv.FormatInt(time.Hour.Microseconds(), 36) + "-1"},
	} {
		t.Run(plan.kind, func(t *testing.T) {
			prefix := freshPrefix()
			limiter, err := newClient(t, c.newRedis(t, nil), ration.WithPrefix(prefix)).Limiter("limiter", plan.Plan)
			require.NoError(t, err)
			for _, allowed := range []bool{true, false} {
				for _, key := range keys {
					d, err := byRedis(limiter.Allow(t.Context(), key))
					require.NoError(t, err, "%q", key)
					require.Equal(t, allowed, d.Allowed, "%q: two keys share a counter, or one has two", key)
				}
			}
			checkStored(t, c, prefix+":limiter:"+plan.kind, plan.numbers, keys)
		})
	}
	t.Run("shards", func(t *testing.T) { testClusterShards(t, c) })
	t.Run("several plans", func(t *testing.T) { testClusterKeysOfMultiPlan(t, c, keys) })
	after := c.errorCounts(t)
	for _, redirection := range []string{"MOVED", "ASK", "CROSSSLOT", "TRYAGAIN", "CLUSTERDOWN"} {
		require.Equal(t, before[redirection], after[redirection], redirection)
	}
}

// The shards of a hot key are in slots of their own, on every master, and grant the quota together.
func testClusterShards(t *testing.T, c *cluster) {
	const limit, shards = 101, 8
	prefix := freshPrefix()
	limiter, err := newClient(t, c.newRedis(t, nil), ration.WithPrefix(prefix)).Limiter("limiter",
		ration.SlidingLog{Limit: limit, Window: time.Hour}, ration.WithShards(shards))
	require.NoError(t, err)
	granted := 0
	for range 8 * limit {
		d, err := byRedis(limiter.Allow(t.Context(), "hot"))
		require.NoError(t, err)
		if d.Allowed {
			granted++
		}
	}
	require.Equal(t, limit, granted)
	var stored, masters atomic.Int64
	c.eachMaster(t, func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, prefix+":*").Result()
		stored.Add(int64(len(keys)))
		if len(keys) > 0 {
			masters.Add(1)
		}
		return err
	})
	require.EqualValues(t, shards, stored.Load())
	require.EqualValues(t, clusterMasters, masters.Load())
}

// The plans of a MultiPlan have a key each, in the slot of the request's key; a plan per tag has one for all keys of the tag.
func testClusterKeysOfMultiPlan(t *testing.T, c *cluster, keys []string) {
	prefix := freshPrefix()
	limiter, err := newClient(t, c.newRedis(t, nil), ration.WithPrefix(prefix)).Limiter("limiter", ration.MultiPlan{
		{Name: "fixed", Plan: ration.FixedWindow{Limit: 1, Window: time.Hour}},
		{Name: "sliding", Plan: ration.SlidingWindow{Limit: 1, Window: time.Hour}},
		{Name: "log", Plan: ration.SlidingLog{Limit: 1, Window: time.Hour}},
		{Name: "bucket", Plan: ration.TokenBucket{Rate: ration.PerHour(1), Burst: 1}},
		{Name: "gcra", Plan: ration.GCRA{Rate: ration.PerHour(1), Burst: 1}},
		{Name: "tag", Plan: ration.FixedWindow{Limit: 1_000_000, Window: time.Hour}, Scope: ration.PerTag},
	})
	require.NoError(t, err)
	for _, allowed := range []bool{true, false} {
		for _, key := range keys {
			d, err := byRedis(limiter.Allow(t.Context(), key))
			require.NoError(t, err, "%q", key)
			require.Equal(t, allowed, d.Allowed, "%q: two keys share a counter, or one has two", key)
		}
	}
	gcra := "-1-" + strconv.FormatInt(time.Hour.Microseconds(), 36) + "-1"
	for head, numbers := range map[string]string{
		"fixed:fw1": "", "sliding:sw1": "", "log:sl1": "", "bucket:tb1": "", "gcra:gc1": gcra,
	} {
		checkStored(t, c, prefix+":limiter/"+head, numbers, keys)
	}
	tags := make(map[string]bool)
	for _, key := range keys {
		if found := braced.FindStringSubmatch(key); found != nil {
			key = "{" + found[1] + "}"
		}
		tags[key] = true
	}
	require.Less(t, len(tags), len(keys), "no two keys share a tag")
	checkStored(t, c, prefix+":limiter/tag:fw1", "", slices.Collect(maps.Keys(tags)))
}

// checkStored looks up what the masters hold under a head, and finds the stored form of each key and nothing else, all in
// the slot of what is hashed of the key.
func checkStored(t *testing.T, c *cluster, head, numbers string, keys []string) {
	t.Helper()
	hashed := make(map[string]string) // by stored key
	for _, key := range keys {
		stored, part := storedForm(head, numbers, key)
		hashed[stored] = part
	}
	var mu sync.Mutex
	var found []string
	c.eachMaster(t, func(ctx context.Context, node *redis.Client) error {
		scan := node.Scan(ctx, 0, head+"*", 1000).Iterator()
		for scan.Next(ctx) {
			mu.Lock()
			found = append(found, scan.Val())
			mu.Unlock()
			if err := checkSlot(ctx, node, scan.Val(), hashed[scan.Val()]); err != nil {
				return err
			}
		}
		return scan.Err()
	})
	require.ElementsMatch(t, slices.Collect(maps.Keys(hashed)), found)
}

// checkSlot asks the server itself whether a stored key is where its hashed part belongs.
func checkSlot(ctx context.Context, node *redis.Client, stored, hashed string) error {
	slot, err := node.ClusterKeySlot(ctx, hashed).Result()
	if err != nil {
		return err
	}
	if got, err := node.ClusterKeySlot(ctx, stored).Result(); err != nil || got != slot {
		return fmt.Errorf("the slot of %q is %d (%w), not %d of %q", stored, got, err, slot, hashed)
	}
	held, err := node.ClusterGetKeysInSlot(ctx, int(slot), 1_000_000).Result()
	if err == nil && !slices.Contains(held, stored) {
		err = fmt.Errorf("%q is not in slot %d", stored, slot)
	}
	return err
}

// braced finds the hash tag of a key as Redis does: between the first { and the next }, if there is anything.
var braced = regexp.MustCompile(`^[^{]*\{([^}]+)\}`)

// storedForm is how a key is stored under a head, with the numbers of a plan whose kind has them, and what Redis Cluster is to
// hash of it: its hash tag, or else all of it with percent and braces escaped. It is written anew here, so that the two ways of
// writing it check each other.
func storedForm(head, numbers, key string) (stored, hashed string) {
	if tag := braced.FindStringSubmatch(key); tag != nil {
		return head + "t" + numbers + ":" + key, tag[1]
	}
	var escaped strings.Builder
	for i := range len(key) {
		if c := key[i]; c == '%' || c == '{' || c == '}' {
			fmt.Fprintf(&escaped, "%%%X", c)
		} else {
			escaped.WriteByte(c)
		}
	}
	return head + "w" + numbers + ":{" + escaped.String() + "}", escaped.String()
}

// awkwardKeys are texts that have gone wrong in one library or another, raw and as parts.
func awkwardKeys() []string {
	texts := []string{
		"u1", "a{b}c", "a{'1':{'k':1}}", "a}b", "{a}b}", "{}x", "{}y", "{{}}", "ключ", "a b", "a\r\nb", "100%", "a%7Bb%7Dc",
		"tenant:42", "{tenant:42}", "{tenant}:42",
	}
	keys := slices.Clone(texts)
	for _, text := range append(texts, strings.Repeat("0123456789", 1000)) {
		keys = append(keys,
			ration.Key(text), ration.Key("part", text), ration.Key(text, ""),
			ration.TaggedKey(text, "part"), ration.TaggedKey("acme", text), ration.TaggedKey("acme", text, ""))
	}
	return keys
}

// randomKeys are texts of letters, braces, percents, spaces, control characters and bytes that are no text.
func randomKeys(random *rand.Rand, n int) []string {
	alphabet := []string{"{", "}", "%", ":", " ", "\x00", "\n", "\x7f", "\xff", "a", "b", "7", "é", "ключ", "鍵", "🔑"}
	keys := make([]string, n)
	for i := range keys {
		for range 1 + random.IntN(20) {
			keys[i] += alphabet[random.IntN(len(alphabet))]
		}
	}
	return keys
}

// A key that is too long raw is refused, and no prefix may hold a hash tag.
func TestClusterKeysRefused(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}) // nobody is asked
	t.Cleanup(func() { _ = rdb.Close() })
	limiter := newLimiter(t, rdb, ration.FixedWindow{Limit: 1, Window: time.Hour})
	_, err := byRedis(limiter.Allow(t.Context(), strings.Repeat("0123456789", 1000)))
	require.ErrorIs(t, err, ration.ErrInvalidKey)
	_, err = ration.New(rdb, ration.WithPrefix("app{x}:"))
	require.ErrorIs(t, err, ration.ErrInvalidName)
}
