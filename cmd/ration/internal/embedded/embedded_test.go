package embedded_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-ration/ration/cmd/ration/internal/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClock(t *testing.T) {
	t.Parallel()
	server := embedded.New()
	t.Cleanup(server.Close)
	rdb := server.NewClient()
	t.Cleanup(func() { _ = rdb.Close() })
	now := func() time.Time {
		t.Helper()
		at, err := rdb.Time(t.Context()).Result()
		require.NoError(t, err)
		return at
	}
	before := time.Now().Truncate(time.Microsecond)
	first := now()
	require.False(t, first.Before(before))
	require.False(t, first.After(time.Now()))
	require.False(t, now().Before(first))

	// Longer than a key may live that is stored meanwhile.
	const script = `
		redis.call('SET', KEYS[1], 'v', 'PX', 1)
		for _ = 1, 1000000 do end
		return {redis.call('TIME')[2], redis.call('EXISTS', KEYS[1]), redis.call('TIME')[2]}`
	got, err := rdb.Eval(t.Context(), script, []string{"k"}).Slice()
	require.NoError(t, err)
	require.EqualValues(t, 1, got[1], "time goes on within a script")
	require.Equal(t, got[0], got[2])

	past := time.Unix(1_000_000_000, 0)
	server.SetTime(past)
	require.True(t, now().Equal(past))
	require.NoError(t, rdb.Set(t.Context(), "k", "v", time.Minute).Err())
	server.SetTime(past.Add(time.Minute))
	require.Zero(t, rdb.Exists(t.Context(), "k").Val())
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	server.Flush()
	require.Zero(t, rdb.Exists(t.Context(), "k").Val())
}
