package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/conformance"
)

// beater beats for processes of a fleet on a server whose clock the test sets.
type beater struct {
	rdb    *redis.Client
	script *redis.Script
	key    string
}

// beat is what a process is told: how many there are, and for how long it counts.
func (b *beater) beat(t *testing.T, process string) (processes int64, span time.Duration) {
	t.Helper()
	reply, err := b.script.Run(t.Context(), b.rdb, []string{b.key}, process).Int64Slice()
	require.NoError(t, err)
	require.Len(t, reply, 2)
	left, err := b.rdb.PTTL(t.Context(), b.key).Result()
	require.NoError(t, err)
	require.Equal(t, time.Minute, left, "of the key")
	return reply[0], time.Duration(reply[1]) * time.Microsecond
}

func (b *beater) require(t *testing.T, process string, processes int64, span time.Duration) {
	t.Helper()
	n, d := b.beat(t, process)
	require.Equal(t, processes, n)
	require.Equal(t, span, d)
}

// Processes count from a beat until its time is over, to the microsecond; in a large fleet for longer; and after a clock that
// stepped back as before, once each has beaten again.
func TestFleetBeats(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s, clock := startServerWithClock(t, image, conformance.T0)
		b := &beater{s.rdb, redis.NewScript(readScript(t, "fleet_beat").source), freshPrefix()}
		const least = 3 * time.Second
		b.require(t, "a", 1, least)
		b.require(t, "b", 2, least)
		b.require(t, "b", 2, least)
		clock.Advance(least - time.Microsecond)
		b.require(t, "c", 3, least)
		clock.Advance(time.Microsecond)
		b.require(t, "c", 1, least)

		for i := range int64(399) {
			b.require(t, fmt.Sprint("of many ", i), i+2, max(least, time.Duration(i+1)*10*time.Millisecond))
		}
		b.require(t, "c", 400, 4*time.Second)
		clock.Advance(4 * time.Second)
		b.require(t, "d", 1, least)

		members := make([]redis.Z, 7000)
		for i := range members {
			members[i] = redis.Z{Score: float64(clock.Now().Add(time.Minute).UnixMicro()), Member: i}
		}
		require.NoError(t, s.rdb.ZAdd(t.Context(), b.key, members...).Err())
		b.require(t, "d", 7001, time.Minute)
		clock.Advance(time.Minute)
		b.require(t, "d", 1, least)

		// The clock steps back, by little and by much.
		b.require(t, "e", 2, least)
		clock.Advance(-time.Second)
		b.require(t, "d", 2, least)
		b.require(t, "e", 2, least)
		clock.Advance(least)
		b.require(t, "f", 1, least)
		b.require(t, "g", 2, least)
		clock.Advance(-time.Hour)
		b.require(t, "f", 1, least)
		b.require(t, "g", 2, least)
		clock.Advance(least)
		b.require(t, "h", 1, least)
	})
}

// Processes know how many they are, also when one of them comes or goes, and grant their shares by that when the server is not
// there.
func TestFleetKnowsItsSize(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s := startServer(t, image)
		prefix := freshPrefix()
		plan := ration.FixedWindow{Limit: 1000, Window: time.Hour}
		var clients []*ration.Client
		var limiters []*ration.Limiter
		join := func() {
			client := newClient(t, s.newRedis(t, nil), ration.WithPrefix(prefix), ration.WithTimeout(time.Second),
				ration.OnFailure(ration.FailLocal()))
			limiter, err := client.Limiter("limiter", plan)
			require.NoError(t, err)
			_, err = byRedis(limiter.Allow(t.Context(), "tenant:42"))
			require.NoError(t, err)
			clients, limiters = append(clients, client), append(limiters, limiter)
		}
		for range 5 {
			join()
		}
		const key = ":limiter:fl1w:{limiter}"
		awaitProcesses := func(n int64) {
			t.Helper()
			await(t, "the fleet to be counted", func(ctx context.Context) error {
				found, err := s.rdb.ZCard(ctx, prefix+key).Result()
				if err == nil && found != n {
					err = fmt.Errorf("there are %d, not %d", found, n)
				}
				return err
			})
		}
		awaitProcesses(5)
		clients[4].Close()
		awaitProcesses(4)
		time.Sleep(2500 * time.Millisecond) // until all have beaten twice

		unpause := s.box.pause(t)
		granted := int64(0)
		for _, l := range limiters[:4] {
			d, err := l.AllowUpTo(t.Context(), "fresh", 1000)
			require.NoError(t, err)
			require.Equal(t, ration.SourceLocal, d.Source)
			granted += d.Granted
		}
		require.EqualValues(t, 1000, granted)
		unpause()
		await(t, "what was granted to be charged", func(ctx context.Context) error {
			d, err := byRedis(limiters[0].Peek(ctx, "fresh"))
			if err == nil && d.Remaining != 0 {
				err = fmt.Errorf("it has %d units left", d.Remaining)
			}
			return err
		})
	})
}
