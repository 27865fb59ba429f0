package ration_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// The keys of B59, and one of each kind that is easily taken for another.
var oddKeys = []string{
	"u1", "a{b}c", "a{'1':{'k':1}}", "a}b", "{a}b}", "{}x", "{}y", "ключ", "a b", "a\r\nb",
	"tenant:42", "{tenant:42}", "%7Btenant:42%7D", "a{b", "{a}", "{{a}}", "{}{a}", "\x00\xff", "%", "%25", "a%", "w:{a}",
}

func TestStoredKeysOfB59(t *testing.T) {
	t.Parallel()
	limiter := newLimiter(t, ration.FixedWindow{Limit: 1, Window: 1e9})
	for _, c := range []struct{ key, stored string }{
		{"tenant:42", "ration:search:fw1w:{tenant:42}"},
		{"{acme}:user:7", "ration:search:fw1t:{acme}:user:7"},
		{"user:{acme}:7", "ration:search:fw1t:user:{acme}:7"},
		{"a{'1':{'k':1}}", "ration:search:fw1t:a{'1':{'k':1}}"},
		{"{}x", "ration:search:fw1w:{%7B%7Dx}"},
		{"{}{a}", "ration:search:fw1w:{%7B%7D%7Ba%7D}"},
		{"a}b", "ration:search:fw1w:{a%7Db}"},
		{"a{b", "ration:search:fw1w:{a%7Bb}"},
		{"100%", "ration:search:fw1w:{100%25}"},
	} {
		require.Equal(t, c.stored, limiter.StoredKey(c.key), "key %q", c.key)
	}
	for plan, kind := range map[ration.Plan]string{
		ration.SlidingWindow{Limit: 1, Window: 1e9}:             "sw1%s",
		ration.SlidingLog{Limit: 1, Window: 1e9}:                "sl1%s",
		ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 1}: "tb1%s",
		// What a GCRA keeps has a meaning only under its numbers: 1/10000 tokens a microsecond, and a burst of 100.
		ration.GCRA{Rate: ration.PerSecond(100), Burst: 100}: "gc1%s-1-7ps-2s",
	} {
		limiter := newLimiter(t, plan)
		require.Equal(t, "ration:search:"+fmt.Sprintf(kind, "w")+":{tenant:42}", limiter.StoredKey("tenant:42"))
		require.Equal(t, "ration:search:"+fmt.Sprintf(kind, "t")+":{acme}:7", limiter.StoredKey("{acme}:7"))
	}
}

// What is stored in the slot of a tag is what has that tag, and nothing else.
func TestSlotsOfB59(t *testing.T) {
	t.Parallel()
	limiter := newLimiter(t, ration.FixedWindow{Limit: 1, Window: 1e9})
	// From the Redis Cluster specification and CLUSTER KEYSLOT of a server.
	require.EqualValues(t, 12739, ration.Slot("123456789"))
	require.EqualValues(t, 12182, ration.Slot("foo"))
	require.EqualValues(t, 0, ration.Slot(""))
	require.Equal(t, ration.Slot("user1000"), ration.Slot("{user1000}.following"))
	require.Equal(t, ration.Slot("{bar"), ration.Slot("foo{{bar}}zap"))
	require.NotEqual(t, ration.Slot("bar"), ration.Slot("foo{}{bar}"))

	require.Equal(t, ration.Slot("acme"), ration.Slot(limiter.StoredKey("{acme}:user:7")))
	require.Equal(t, ration.Slot("acme"), ration.Slot(limiter.StoredKey(ration.TaggedKey("acme", "user", "7"))))
	require.Equal(t, ration.Slot("tenant:42"), ration.Slot(limiter.StoredKey("tenant:42")))
	for _, text := range oddKeys {
		// As a part, a text makes no tag: the key hashes as a whole.
		require.Equal(t, ration.Slot(strings.NewReplacer("%", "%25").Replace(ration.Key("x", text))),
			ration.Slot(limiter.StoredKey(ration.Key("x", text))), "part %q", text)
		require.NotEqual(t, ration.Slot("b"), ration.Slot(limiter.StoredKey(ration.Key("x", "{b}", text))), "part %q", text)
	}
}

// What is remembered of a key is what would be built, whatever other keys and plans were asked for meanwhile.
func TestRecentKeys(t *testing.T) {
	t.Parallel()
	limiter := newLimiter(t, ration.GCRA{Rate: ration.PerSecond(1), Burst: 1})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 50 {
				for i := range 200 {
					plan := ration.GCRA{Rate: ration.PerSecond(1), Burst: int64(1 + i%3)}
					key := oddKeys[i%len(oddKeys)] + strings.Repeat("x", i/len(oddKeys))
					remembered, built := limiter.RecentKey(plan, key)
					if remembered != built {
						t.Errorf("key %q: got %q, want %q", key, remembered, built)
					}
				}
			}
		})
	}
	callers.Wait()
}

// Different keys have different counters.
func TestOddKeysOfB59(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	for name, plan := range map[string]ration.Plan{
		"window": ration.FixedWindow{Limit: 1, Window: 1e9},
		"bucket": ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 1},
	} {
		limiter, err := server.Client.Limiter(name, plan)
		require.NoError(t, err)
		take := func(key string) {
			t.Helper()
			d, err := limiter.Allow(t.Context(), key)
			require.NoError(t, err, "key %q", key)
			require.True(t, d.Allowed, "key %q", key)
			d, err = limiter.Allow(t.Context(), key)
			require.NoError(t, err, "key %q", key)
			require.False(t, d.Allowed, "key %q", key)
		}
		for _, text := range oddKeys {
			take(text)
			take(ration.Key("part", text))
			take(ration.TaggedKey(text, "part"))
			take(ration.TaggedKey("part", text))
		}
		long := strings.Repeat("x", 10_000)
		_, err = limiter.Allow(t.Context(), long)
		require.ErrorIs(t, err, ration.ErrInvalidKey)
		take(ration.Key(long))
		take(ration.Key(long, ""))
		take(ration.TaggedKey(long, "a"))
		take(ration.TaggedKey("a", long))
		take(strings.Repeat("x", 512))
	}
}

func TestKeysOfB109(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a:b", "a/b", "", "a b", "ключ", "{a}", strings.Repeat("x", 129)} {
		_, err := rationtest.New(t).Client.Limiter(name, ration.FixedWindow{Limit: 1, Window: 1e9})
		require.ErrorIs(t, err, ration.ErrInvalidName, "name %q", name)
		if name != "" {
			require.ErrorContains(t, err, name)
		}
	}
	limiter := newLimiter(t, ration.FixedWindow{Limit: 1, Window: 1e9})
	for _, key := range []string{ration.Key("a:b", "c"), ration.Key("a", "b:c"), ration.Key("a", ""), ration.Key("a"), ration.Key("")} {
		d, err := limiter.Allow(t.Context(), key)
		require.NoError(t, err, "key %q", key)
		require.True(t, d.Allowed, "key %q", key)
	}
	for _, key := range []string{ration.Key(), ration.TaggedKey("acme"), ""} {
		_, err := limiter.Allow(t.Context(), key)
		require.ErrorIs(t, err, ration.ErrInvalidKey)
	}
}

func TestKeyIsReadable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "tenant:42", ration.Key("tenant", "42"))
	require.Equal(t, "{acme}:user:7", ration.TaggedKey("acme", "user", "7"))
	require.Equal(t, "a%3Ab:%7Bc%7D:%25:%", ration.Key("a:b", "{c}", "%", ""))
}

// Different parts make different keys, whatever they hold, and keys of any length are accepted.
func TestKeyIsInjective(t *testing.T) {
	t.Parallel()
	part := rapid.OneOf(
		rapid.StringOf(rapid.SampledFrom([]rune(`a:%{}\25`))),
		rapid.String(),
		rapid.Map(rapid.IntRange(190, 210), func(n int) string { return strings.Repeat("x", n) }),
	)
	parts := rapid.SliceOfN(part, 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := parts.Draw(t, "a"), parts.Draw(t, "b")
		same := strings.Join(quoted(a), ",") == strings.Join(quoted(b), ",")
		require.Equal(t, same, ration.Key(a...) == ration.Key(b...))
		tagA, tagB := part.Draw(t, "tag a"), part.Draw(t, "tag b")
		require.Equal(t, same && tagA == tagB, ration.TaggedKey(tagA, a...) == ration.TaggedKey(tagB, b...))
		require.LessOrEqual(t, len(ration.TaggedKey(tagA, a...)), 512)
		require.NotEqual(t, ration.Key(a...), ration.TaggedKey(tagA, b...))
		require.Equal(t, ration.Slot(ration.TaggedKey(tagA, "x")), ration.Slot(ration.TaggedKey(tagA, a...)))
	})
}

// Different raw keys are stored apart.
func TestStoredKeyIsInjective(t *testing.T) {
	t.Parallel()
	limiter := newLimiter(t, ration.FixedWindow{Limit: 1, Window: 1e9})
	key := rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune(`a%{}7BD25`)), 1, 8, -1), rapid.SampledFrom(oddKeys))
	rapid.Check(t, func(t *rapid.T) {
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		require.Equal(t, a == b, limiter.StoredKey(a) == limiter.StoredKey(b))
	})
}

func quoted(parts []string) []string {
	all := make([]string, len(parts))
	for i, part := range parts {
		all[i] = strings.NewReplacer(",", `\,`, `\`, `\\`).Replace(part)
	}
	return all
}

// newLimiter makes a limiter named search on an embedded Redis of its own.
func newLimiter(t *testing.T, plan ration.Plan, options ...ration.LimiterOption) *ration.Limiter {
	t.Helper()
	limiter, err := rationtest.New(t).Client.Limiter("search", plan, options...)
	require.NoError(t, err)
	return limiter
}
