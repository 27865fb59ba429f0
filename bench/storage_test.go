package main

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestStorages(t *testing.T) {
	t.Parallel()
	server, b, _ := logBench(t)
	got, err := b.storages(t.Context())
	require.NoError(t, err)
	var names []string
	for _, s := range got {
		names = append(names, s.name)
	}
	require.Equal(t, []string{"gcra", "tokenbucket", "fixedwindow", "slidingwindow", "slidinglog", baseline}, names)
	require.NoError(t, b.cleanUp())
	require.Empty(t, server.Keys())
}

// Short keys have 12 bytes, differ, and are deleted by their names, and no others that look like them.
func TestShortKeys(t *testing.T) {
	t.Parallel()
	server, o := embedded(t)
	s := newKeySource()
	all := append(s.takeShort(3), s.takeShort(page)...)
	seen := make(map[string]bool)
	for _, key := range all {
		require.Len(t, key, 12)
		require.False(t, seen[key])
		seen[key] = true
		require.NoError(t, server.Set(key, "1"))
	}
	other := s.short(len(all) + 1)
	require.NoError(t, server.Set(other, "1"))
	rdb := redis.NewClient(o)
	defer func() { _ = rdb.Close() }()
	require.NoError(t, s.deleteAll(t.Context(), rdb))
	require.Equal(t, []string{other}, server.Keys())
}
