package integration

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/conformance"
)

// A user who may run scripts, but not all the commands in them, finds out half way. The units may be charged by then, and the
// key may be without an expiry; they are never given back, and once the user may, the key is mended.
func TestForbiddenCommands(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s, clock := startServerWithClock(t, image, conformance.T0)
		require.NoError(t, s.rdb.Do(t.Context(), "acl", "setuser", "app", "on", ">app", "allkeys").Err())
		app := s.newRedis(t, func(o *redis.Options) { o.Username, o.Password = "app", "app" })
		for _, c := range []struct {
			plan    ration.Plan
			script  string
			charges []string // the commands without which a request is charged that ends with an error
		}{
			{ration.FixedWindow{Limit: 5, Window: time.Hour}, "fixedwindow_take", []string{"PEXPIRE", "PEXPIRETIME"}},
			{ration.FixedWindow{Limit: 5, Window: time.Hour, Aligned: true}, "fixedwindow_take", []string{"PEXPIREAT"}},
			{ration.SlidingWindow{Limit: 5, Window: time.Hour}, "slidingwindow_take", []string{"PEXPIREAT", "PTTL"}},
			{ration.SlidingLog{Limit: 5, Window: time.Hour}, "slidinglog_take", []string{"PEXPIREAT"}},
			{ration.TokenBucket{Rate: ration.PerHour(5), Burst: 5}, "tokenbucket_take", []string{"PEXPIREAT", "PTTL"}},
			{ration.GCRA{Rate: ration.PerHour(5), Burst: 5}, "gcra_one", nil},
		} {
			t.Run(c.plan.String(), func(t *testing.T) {
				charges, refuses := make(map[string]bool), make(map[string]bool)
				for _, command := range readScript(t, c.script).uses {
					require.NoError(t, s.rdb.Do(t.Context(), "acl", "setuser", "app", "+@all", "-"+strings.ToLower(command)).Err())
					for state := range storedStates {
						k := newForbidden(t, s.rdb, app, clock, c.plan)
						storedStates[state](t, k)
						refused, charged := k.try(t)
						refuses[command] = refuses[command] || refused
						charges[command] = charges[command] || refused && charged
						k.requireMended(t)
					}
				}
				maps.DeleteFunc(charges, func(_ string, charged bool) bool { return !charged })
				require.ElementsMatch(t, c.charges, slices.Collect(maps.Keys(charges)))
				require.True(t, refuses["TIME"] || refuses["GET"])
			})
		}
	})
}

// storedStates are what a request may find.
var storedStates = map[string]func(t *testing.T, k *forbidden){
	"nothing": func(*testing.T, *forbidden) {},
	"two units": func(t *testing.T, k *forbidden) {
		k.fill(t)
	},
	"two units without an expiry": func(t *testing.T, k *forbidden) {
		k.fill(t)
		require.NoError(t, k.admin.Persist(t.Context(), theKey(t, k.admin, k.prefix)).Err())
		k.clock.Advance(63 * time.Microsecond) // to where every script looks at the expiry
	},
	"two units ahead of the clock": func(t *testing.T, k *forbidden) {
		k.fill(t)
		k.clock.Advance(-90 * time.Minute)
	},
	"two old units": func(t *testing.T, k *forbidden) {
		k.fill(t)
		k.clock.Advance(90 * time.Minute)
	},
}

// forbidden is a key that is asked for by a user who may not do all that it takes, and by one who may do everything.
type forbidden struct {
	prefix    string
	clock     *Clock
	admin     *redis.Client
	mine, his *ration.Limiter
}

func newForbidden(t *testing.T, admin, user *redis.Client, clock *Clock, plan ration.Plan) *forbidden {
	t.Helper()
	clock.Set(conformance.T0.Add(time.Microsecond)) // of the moments, most, in which no script looks at the expiry
	k := &forbidden{prefix: freshPrefix(), clock: clock, admin: admin}
	var err error
	k.mine, err = newClient(t, admin, ration.WithPrefix(k.prefix)).Limiter("limiter", plan)
	require.NoError(t, err)
	k.his, err = newClient(t, user, ration.WithPrefix(k.prefix)).Limiter("limiter", plan)
	require.NoError(t, err)
	return k
}

func (k *forbidden) fill(t *testing.T) {
	t.Helper()
	requireAllowed(t, k.mine, 4)
	requireAllowed(t, k.mine, 3)
}

func (k *forbidden) remaining(t *testing.T) int64 {
	t.Helper()
	d, err := byRedis(k.mine.Peek(t.Context(), "tenant:42"))
	require.NoError(t, err)
	return d.Remaining
}

// try has the user ask for a unit. If anything changes, it is that unit.
func (k *forbidden) try(t *testing.T) (refused, charged bool) {
	t.Helper()
	before := k.remaining(t)
	d, err := byRedis(k.his.Allow(t.Context(), "tenant:42"))
	after := k.remaining(t)
	charged = after < before
	if err == nil {
		require.Equal(t, charged, d.Allowed)
		return false, charged
	}
	require.ErrorIs(t, err, ration.ErrUnavailable)
	require.ErrorIs(t, err, ration.ErrConfiguration)
	require.LessOrEqual(t, after, before, "given back")
	require.GreaterOrEqual(t, after, before-1)
	return true, charged
}

// requireMended asks for a unit as a user who may, in a moment in which every script looks at the expiry.
func (k *forbidden) requireMended(t *testing.T) {
	t.Helper()
	k.clock.Set(k.clock.Now().Truncate(64 * time.Microsecond).Add(64 * time.Microsecond))
	_, err := byRedis(k.mine.Allow(t.Context(), "tenant:42"))
	require.NoError(t, err)
	left, err := k.admin.Do(t.Context(), "pttl", theKey(t, k.admin, k.prefix)).Int64()
	require.NoError(t, err)
	require.Positive(t, left)
}
