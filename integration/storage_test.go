package integration

import (
	"context"
	"math"
	"math/bits"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/conformance"
)

// What a key takes in Redis, by MEMORY USAGE, is at most what the plan says for a key of 12 bytes, and the length of what the
// stored name has besides: the prefix, the limiter's name, the kind.
//
// MEMORY USAGE is exact, and the same in every run. It counts the value, the name, and the entry in the table of keys, as the
// allocator rounds each of them up; a name by up to 15 bytes, so names of 16 lengths are looked at. It leaves out the entry in
// the table of expiries, and the places of both entries in their tables, which are added here. What no rule gives, the spare
// places of tables that have just grown, only the benchmark sees, which measures many keys as a whole.
// (Valkey keeps a short name in one piece with its value, and then does not count it. It takes less all the same.)
func TestMemoryOfKeys(t *testing.T) {
	t.Parallel()
	const (
		key       = "tenant:00042"
		uncounted = 24 + 2*8 // bytes: an entry, two places
	)
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s, clock := startServerWithClock(t, image, conformance.T0)
		for _, c := range []struct {
			plan ration.Plan
			most int64
		}{
			{ration.GCRA{Rate: ration.PerSecond(100), Burst: 20}, 120},
			{ration.GCRA{Rate: ration.PerDay(999_983), Burst: 10_000}, 120},
			{ration.TokenBucket{Rate: ration.PerSecond(100), Burst: 20}, 200},
			{ration.TokenBucket{Rate: ration.PerDay(999_983), Burst: 50_000_000}, 200},
			{ration.SlidingWindow{Limit: 100, Window: time.Minute}, 200},
			{ration.SlidingWindow{Limit: 1 << 52, Window: time.Millisecond}, 200},
			{ration.FixedWindow{Limit: 100, Window: time.Minute}, 120},
			{ration.FixedWindow{Limit: 1 << 52, Window: time.Minute}, 120},
		} {
			for length := range 16 {
				prefix := freshPrefix() + strings.Repeat("-", length)
				limiter, err := newClient(t, s.rdb, ration.WithPrefix(prefix)).Limiter("api", c.plan)
				require.NoError(t, err)
				fillUp(t, clock, limiter, key)
				stored := theKey(t, s.rdb, prefix)
				used, err := s.rdb.MemoryUsage(t.Context(), stored, 0).Result()
				require.NoError(t, err)
				require.LessOrEqual(t, used+uncounted, c.most+int64(len(stored)-len(key)), "%v: %s", c.plan, stored)
				require.NoError(t, s.rdb.Del(t.Context(), stored).Err())
			}
		}
	})
}

// fillUp makes the numbers of a key as long as they get: all is taken, and again what there is when some has come back.
func fillUp(t *testing.T, clock *Clock, limiter *ration.Limiter, key string) {
	t.Helper()
	clock.Set(conformance.T0)
	d, err := limiter.AllowUpTo(t.Context(), key, math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, d.Limit, d.Granted)
	clock.Advance(d.ResetAfter * 3 / 4)
	_, err = limiter.AllowUpTo(t.Context(), key, math.MaxInt64)
	require.NoError(t, err)
}

// A sliding log takes a member for each grant, whatever its cost: 102 bytes of cost 1, and a little more where the member says
// the cost. The members' levels in the skip list are drawn by lot, but of a thousand the sum is never far off.
func TestMemoryOfSlidingLog(t *testing.T) {
	t.Parallel()
	const grants = 1000
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s, clock := startServerWithClock(t, image, conformance.T0)
		for _, c := range []struct{ cost, most int64 }{
			{1, 110_000},
			{99, 120_000},
		} {
			plan := ration.SlidingLog{Limit: grants * c.cost, Window: time.Hour}
			_, stored := fillLog(t, s, clock, plan, grants, func(int64) int64 { return c.cost })
			used, err := s.rdb.MemoryUsage(t.Context(), stored, 0).Result()
			require.NoError(t, err)
			t.Logf("%d grants of %d take %d bytes", grants, c.cost, used)
			require.LessOrEqual(t, used, c.most)
		}
	})
}

// A call about a sliding log does little, however much is in it, counted in the commands it calls and the members it takes
// away, which is all that grows with the log.
func TestWorkOfSlidingLog(t *testing.T) {
	t.Parallel()
	const (
		grants = 10_000
		window = time.Minute
	)
	mostAtOnce := mostTakenAway(t)
	require.LessOrEqual(t, mostAtOnce, int64(1000))
	fill := func(t *testing.T, s *server, clock *Clock) (limiter *ration.Limiter, stored string) {
		t.Helper()
		plan := ration.SlidingLog{Limit: 2 * grants, Window: window}
		return fillLog(t, s, clock, plan, grants, func(i int64) int64 { return 1 + i%2 })
	}
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s, clock := startServerWithClock(t, image, conformance.T0)

		t.Run("what is out goes by and by", func(t *testing.T) {
			limiter, stored := fill(t, s, clock)
			clock.Advance(window / 2)
			take(t, limiter, 1)
			clock.Advance(window / 2)
			// All but the last are out, and still there.
			for _, look := range []func() (ration.Decision, error){
				func() (ration.Decision, error) { return byRedis(limiter.Peek(t.Context(), logKey)) },
				func() (ration.Decision, error) { return byRedis(limiter.AllowN(t.Context(), logKey, 0)) },
				func() (ration.Decision, error) { return byRedis(limiter.AllowN(t.Context(), logKey, 2*grants)) },
			} {
				d, err := look()
				require.NoError(t, err)
				require.EqualValues(t, 2*grants-1, d.Remaining)
				require.EqualValues(t, grants+1, members(t, s.rdb, stored), "a call that grants nothing takes nothing away")
			}
			for live, left := int64(2), int64(grants); left > 0; live++ {
				left = max(left-mostAtOnce, 0)
				calls := s.countCalls(t, func() { take(t, limiter, 1) })
				require.LessOrEqual(t, sum(calls), int64(10), "%v", calls)
				require.Equal(t, live+left, members(t, s.rdb, stored))
			}
		})

		t.Run("what is out as a whole goes by and by too", func(t *testing.T) {
			limiter, stored := fill(t, s, clock)
			clock.Advance(window)
			require.EqualValues(t, grants, members(t, s.rdb, stored), "a large log outlasts its window a little")
			calls := s.countCalls(t, func() {
				d, err := byRedis(limiter.Allow(t.Context(), logKey))
				require.NoError(t, err)
				require.EqualValues(t, 2*grants-1, d.Remaining)
			})
			require.Equal(t, grants-mostAtOnce+1, members(t, s.rdb, stored))
			require.LessOrEqual(t, sum(calls), int64(10), "%v", calls)
		})

		t.Run("what is ahead of the clock becomes one", func(t *testing.T) {
			for _, back := range []time.Duration{time.Microsecond, 50 * time.Microsecond} {
				limiter, stored := fill(t, s, clock)
				clock.Advance(-back)
				calls := s.countCalls(t, func() {
					d, err := byRedis(limiter.Allow(t.Context(), logKey))
					require.NoError(t, err)
					require.EqualValues(t, 2*grants-3*grants/2-1, d.Remaining)
				})
				require.LessOrEqual(t, sum(calls), int64(12), "%v", calls)
				if back > 3*time.Microsecond { // a hundred grants in each: these are many, so that all become one
					require.EqualValues(t, 2, members(t, s.rdb, stored))
				}
			}
		})

		t.Run("a denial looks at few", func(t *testing.T) {
			limiter, stored := fill(t, s, clock)
			for _, cost := range []int64{grants, 2 * grants} {
				calls := s.countCalls(t, func() {
					d, err := byRedis(limiter.AllowN(t.Context(), logKey, cost))
					require.NoError(t, err)
					require.False(t, d.Allowed)
				})
				// To halve what is left of the log until one grant is left, and some commands besides.
				require.LessOrEqual(t, sum(calls), int64(bits.Len(grants)+10), "%v", calls)
			}
			require.EqualValues(t, grants, members(t, s.rdb, stored))
		})

		t.Run("a grant is a member", func(t *testing.T) {
			prefix := freshPrefix()
			limiter := newLog(t, s.rdb, prefix, ration.SlidingLog{Limit: 100_000, Window: window})
			take(t, limiter, 50_000)
			stored := theKey(t, s.rdb, prefix)
			require.EqualValues(t, 1, members(t, s.rdb, stored))
			d, err := limiter.AllowUpTo(t.Context(), logKey, 100_000)
			require.NoError(t, err)
			require.EqualValues(t, 50_000, d.Granted)
			require.EqualValues(t, 2, members(t, s.rdb, stored))
		})
	})
}

// mostTakenAway is how many members the header of the script says that a call takes away at most.
func mostTakenAway(t *testing.T) int64 {
	t.Helper()
	source, err := os.ReadFile("../scripts/slidinglog_take.lua")
	require.NoError(t, err)
	found := regexp.MustCompile(`O\((\d+)\) to take away`).FindSubmatch(source)
	require.Len(t, found, 2)
	most, err := strconv.ParseInt(string(found[1]), 10, 64)
	require.NoError(t, err)
	return most
}

const logKey = "tenant:00042"

func newLog(t *testing.T, rdb *redis.Client, prefix string, plan ration.SlidingLog) *ration.Limiter {
	t.Helper()
	limiter, err := newClient(t, rdb, ration.WithPrefix(prefix)).Limiter("log", plan)
	require.NoError(t, err)
	return limiter
}

// fillLog makes a log of so many grants, a hundred in each microsecond, the last of them now. What a limiter sends for the
// first is sent again for the others, by the hundred.
func fillLog(
	t *testing.T, s *server, clock *Clock, plan ration.SlidingLog, grants int64, cost func(i int64) int64,
) (limiter *ration.Limiter, stored string) {
	t.Helper()
	rdb, prefix := s.newRedis(t, nil), freshPrefix()
	sent := &lastScriptCall{}
	rdb.AddHook(sent)
	limiter = newLog(t, rdb, prefix, plan)
	take(t, limiter, cost(0))
	stored = theKey(t, s.rdb, prefix)
	for done := int64(1); done < grants; {
		clock.Advance(time.Microsecond)
		_, err := rdb.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for range min(100, grants-done) {
				const costIndex = 4 // EVALSHA digest 1 key cost count
				args := slices.Clone(sent.args)
				args[costIndex] = cost(done)
				pipe.Do(t.Context(), args...)
				done++
			}
			return nil
		})
		require.NoError(t, err)
	}
	require.Equal(t, grants, members(t, s.rdb, stored))
	return limiter, stored
}

// lastScriptCall remembers the arguments of the last EVALSHA.
type lastScriptCall struct{ args []any }

func (*lastScriptCall) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*lastScriptCall) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *lastScriptCall) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			c.args = slices.Clone(cmd.Args())
		}
		return next(ctx, cmd)
	}
}

func take(t *testing.T, limiter *ration.Limiter, cost int64) {
	t.Helper()
	d, err := byRedis(limiter.AllowN(t.Context(), logKey, cost))
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

// theKey is the one key stored under a prefix.
func theKey(t *testing.T, rdb *redis.Client, prefix string) string {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), prefix+":*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	return keys[0]
}

func members(t *testing.T, rdb *redis.Client, stored string) int64 {
	t.Helper()
	n, err := rdb.ZCard(t.Context(), stored).Result()
	require.NoError(t, err)
	return n
}

var callsPattern = regexp.MustCompile(`cmdstat_(\w+):calls=(\d+)`)

// countCalls are the commands that the server runs meanwhile, by name: those of scripts, but not the calls of scripts.
func (s *server) countCalls(t *testing.T, do func()) map[string]int64 {
	t.Helper()
	require.NoError(t, s.rdb.ConfigResetStat(t.Context()).Err())
	do()
	stats, err := s.rdb.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	calls := make(map[string]int64)
	for _, match := range callsPattern.FindAllStringSubmatch(stats, -1) {
		n, err := strconv.ParseInt(match[2], 10, 64)
		require.NoError(t, err)
		if name := match[1]; name != "evalsha" && name != "eval" {
			calls[name] = n
		}
	}
	return calls
}

func sum(calls map[string]int64) int64 {
	var all int64
	for _, n := range calls {
		all += n
	}
	return all
}
