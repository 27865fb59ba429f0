package ration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// A denied request, a look and a peek leave what is stored as it was, its lifetime too.
func TestDenialsWriteNothing(t *testing.T) {
	t.Parallel()
	for _, plan := range []ration.Plan{
		ration.FixedWindow{Limit: 3, Window: time.Minute},
		ration.FixedWindow{Limit: 3, Window: time.Minute, Aligned: true},
		ration.SlidingWindow{Limit: 3, Window: time.Minute},
		ration.SlidingLog{Limit: 3, Window: time.Minute},
		ration.TokenBucket{Rate: ration.Every(7 * time.Second), Burst: 3},
		ration.GCRA{Rate: ration.Every(7 * time.Second), Burst: 3},
	} {
		t.Run(plan.String(), func(t *testing.T) {
			t.Parallel()
			server := rationtest.New(t)
			rdb := server.NewRedis(t)
			limiter, err := server.Client.Limiter("search", plan)
			require.NoError(t, err)
			_, err = limiter.AllowN(t.Context(), "key", 2)
			require.NoError(t, err)
			stored := limiter.StoredKey("key")
			state := func() any {
				expires, err := rdb.PExpireTime(t.Context(), stored).Result()
				require.NoError(t, err)
				switch kind := rdb.Type(t.Context(), stored).Val(); kind {
				case "string":
					return []any{expires, rdb.Get(t.Context(), stored).Val()}
				case "hash":
					return []any{expires, rdb.HGetAll(t.Context(), stored).Val()}
				case "zset":
					return []any{expires, rdb.ZRangeWithScores(t.Context(), stored, 0, -1).Val()}
				default:
					t.Fatal(kind)
					return nil
				}
			}
			before := state()
			for range 5 {
				server.Advance(123 * time.Millisecond)
				d, err := limiter.AllowN(t.Context(), "key", 3)
				require.NoError(t, err)
				require.False(t, d.Allowed)
				_, err = limiter.AllowN(t.Context(), "key", 0)
				require.NoError(t, err)
				_, err = limiter.Peek(t.Context(), "key")
				require.NoError(t, err)
				require.Equal(t, before, state())
			}
		})
	}
}
