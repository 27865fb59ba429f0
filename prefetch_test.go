package ration_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// holder is a process that takes units ahead of need.
func holder(t *testing.T, server *rationtest.Server, plan ration.Plan, p ration.Prefetch, options ...ration.ClientOption) (*ration.Client, *ration.Limiter) {
	t.Helper()
	client, err := ration.New(server.NewRedis(t), append([]ration.ClientOption{ration.WithTimeout(time.Minute), silent}, options...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("search", plan, ration.WithPrefetch(p))
	require.NoError(t, err)
	return client, limiter
}

// grow takes units until so many are held, and says how many it took.
func grow(t *testing.T, client *ration.Client, l *ration.Limiter, key string, held int64) (taken int64) {
	t.Helper()
	for client.Stats().LeasedUnits != held {
		d, err := l.Allow(t.Context(), key)
		require.NoError(t, err)
		require.True(t, d.Allowed, "%d units were never held", held)
		taken++
		ration.AwaitLeases(client)
	}
	return taken
}

// remains is what remains in Redis.
func remains(t *testing.T, server *rationtest.Server, l *ration.Limiter, key string) int64 {
	t.Helper()
	n, err := ration.LookAt(server.Client, l, key)
	require.NoError(t, err)
	return n
}

// generous are plans of each kind of which much can be taken ahead.
var generous = plansOf(1000, ration.PerMinute(1000), ration.PerKey)

// Units that were taken ahead are granted as if they had been asked for one by one: the decisions are those of a limiter that asks each
// time; what is held and what remains in Redis are together what that has left; and what is given back goes to where it was taken.
func TestLeasesChangeNothing(t *testing.T) {
	t.Parallel()
	for _, plan := range generous {
		t.Run(plan.String(), func(t *testing.T) {
			t.Parallel()
			server := rationtest.New(t, withoutBeats)
			client, holds := holder(t, server, plan, ration.Prefetch{Max: 50}, withoutBeats)
			asks, err := server.Client.Limiter("asks", plan, ration.WithDenyCache(0))
			require.NoError(t, err)
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			var granted [2][]ration.Decision
			leased := 0
			for i := range 300 {
				cost := max(random.Int64N(5), 1)
				got, err := holds.AllowN(t.Context(), "key", cost)
				require.NoError(t, err)
				ration.AwaitLeases(client)
				want, err := asks.AllowN(t.Context(), "key", cost)
				require.NoError(t, err)
				if got.Source == ration.SourceLease {
					leased++
				}
				require.Equal(t, want.Allowed, got.Allowed, "request %d, seed %d", i, seed)
				require.Equal(t, want.Granted, got.Granted)
				held := client.Stats().LeasedUnits
				require.LessOrEqual(t, held, int64(50))
				require.Equal(t, want.Remaining, remains(t, server, holds, "key")+held, "request %d, seed %d", i, seed)
				peeked, err := holds.Peek(t.Context(), "key")
				require.NoError(t, err)
				require.Equal(t, want.Remaining, peeked.Remaining)
				granted[0], granted[1] = append(granted[0], got), append(granted[1], want)
			}
			require.Greater(t, leased, 200)
			for _, i := range random.Perm(len(granted[0]))[:100] {
				require.NoError(t, holds.Refund(t.Context(), granted[0][i]))
				require.NoError(t, asks.Refund(t.Context(), granted[1][i]))
				want, err := asks.Peek(t.Context(), "key")
				require.NoError(t, err)
				require.LessOrEqual(t, remains(t, server, holds, "key")+client.Stats().LeasedUnits, want.Remaining, "never more goes back")
			}
			client.Close()
			want, err := asks.Peek(t.Context(), "key")
			require.NoError(t, err)
			require.LessOrEqual(t, remains(t, server, holds, "key"), want.Remaining)
			require.Zero(t, client.Stats().LeasedUnits)
			require.Zero(t, client.Stats().LeasedKeys)
		})
	}
}

// What is held goes back when it was held for too long, and on Close; and so the quota is whole.
func TestLeasesGoBack(t *testing.T) {
	t.Parallel()
	for _, plan := range generous {
		for _, isClosed := range []bool{false, true} {
			server := rationtest.New(t, withoutBeats)
			client, l := holder(t, server, plan, ration.Prefetch{Max: 50, TTL: 20 * time.Millisecond}, withoutBeats)
			taken := grow(t, client, l, "key", 40)
			limit := remains(t, server, l, "key") + taken + 40
			if isClosed {
				client.Close()
			} else {
				server.Advance(20 * time.Millisecond)
				require.Eventually(t, func() bool { return client.Stats().LeasedKeys == 0 }, 10*time.Second, time.Millisecond)
				ration.AwaitLeases(client)
			}
			require.Zero(t, client.Stats().LeasedUnits)
			most := limit - taken
			least := most
			if _, isGCRA := plan.(ration.GCRA); isGCRA {
				least-- // what it earned meanwhile is lost to each of the two grants, a part of a unit
			}
			require.GreaterOrEqual(t, remains(t, server, l, "key"), least, "%v", plan)
			require.LessOrEqual(t, remains(t, server, l, "key"), most, "%v", plan)
		}
	}
}

// Units of one window are not granted in the next.
func TestLeasesOfB85(t *testing.T) {
	t.Parallel()
	for _, aligned := range []bool{false, true} {
		const limit, window, instances = 100, time.Minute, 4
		plan := ration.FixedWindow{Limit: limit, Window: window, Aligned: aligned}
		server := rationtest.New(t)
		var clients []*ration.Client
		var limiters []*ration.Limiter
		for range instances {
			client, l := holder(t, server, plan, ration.Prefetch{Max: 10, TTL: time.Minute})
			clients, limiters = append(clients, client), append(limiters, l)
		}
		for i, l := range limiters {
			for clients[i].Stats().LeasedUnits != 9 {
				d, err := l.Allow(t.Context(), "key")
				require.NoError(t, err)
				require.True(t, d.Allowed)
				ration.AwaitLeases(clients[i])
			}
		}
		server.Advance(window + 2*time.Millisecond)
		allowed := 0
		for denied := 0; denied < instances; {
			denied = 0
			for i, l := range limiters {
				d, err := l.Allow(t.Context(), "key")
				require.NoError(t, err)
				ration.AwaitLeases(clients[i])
				if d.Allowed {
					allowed++
				} else {
					denied++
				}
			}
		}
		require.Equal(t, limit, allowed)
	}
}

// How many units are taken ahead follows demand: none for a key that is asked for now and then, up to Max for one that is asked for all the
// time, and less again when they were not needed; in all this each request is granted.
func TestLeasesFollowDemand(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	const ttl = 100 * time.Millisecond
	client, l := holder(t, server, ration.GCRA{Rate: ration.PerMinute(100_000), Burst: 100_000}, ration.Prefetch{Max: 64, TTL: ttl})
	sources := func(n int, pause time.Duration) (bySource map[ration.Source]int) {
		bySource = make(map[ration.Source]int)
		for range n {
			d, err := l.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.True(t, d.Allowed)
			bySource[d.Source]++
			ration.AwaitLeases(client)
			require.LessOrEqual(t, client.Stats().LeasedUnits, int64(64))
			server.Advance(pause)
		}
		return bySource
	}
	require.Equal(t, map[ration.Source]int{ration.SourceRedis: 10}, sources(10, ttl+time.Millisecond), "now and then")
	often := sources(1000, 0)
	require.LessOrEqual(t, often[ration.SourceRedis], 10)
	server.Advance(ttl)
	some := sources(100, ttl/10)
	require.Greater(t, some[ration.SourceLease], 50)
	require.LessOrEqual(t, client.Stats().LeasedUnits, int64(32))
	server.Advance(ttl)
	require.LessOrEqual(t, sources(10, 10*ttl)[ration.SourceLease], 0, "now and then")
}

// Where less remains than the fleet might take ahead, nothing is taken ahead, so that the last unit is granted to whoever asks.
func TestNobodyStarvesBesideLeases(t *testing.T) {
	t.Parallel()
	for _, plan := range []ration.Plan{
		ration.FixedWindow{Limit: 500, Window: time.Hour},
		ration.SlidingLog{Limit: 500, Window: time.Hour},
		ration.SlidingWindow{Limit: 500, Window: time.Hour},
	} {
		server := rationtest.New(t)
		const processes = 4
		var clients []*ration.Client
		var limiters []*ration.Limiter
		for range processes {
			client, l := holder(t, server, plan, ration.Prefetch{Max: 50}, ration.WithFleetSize(processes), withoutBeats)
			clients, limiters = append(clients, client), append(limiters, l)
		}
		admitted := 0
		for denied := 0; denied < processes; {
			denied = 0
			for i, l := range limiters {
				d, err := l.Allow(t.Context(), "key")
				require.NoError(t, err)
				ration.AwaitLeases(clients[i])
				if !d.Allowed {
					denied++
					continue
				}
				admitted++
			}
			held := int64(0)
			for i := range clients {
				held += clients[i].Stats().LeasedUnits
			}
			if denied > 0 { // who denies while others hold units would have to wait for those
				require.LessOrEqual(t, held, int64(10), "%v", plan)
			}
		}
		require.Equal(t, 500, admitted)
	}
}

// A request that does not fit into what is held, nor into what remains in Redis, fits into both.
func TestLeasesGoBackForGreaterCosts(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	plan := ration.FixedWindow{Limit: 100, Window: time.Hour}
	client, l := holder(t, server, plan, ration.Prefetch{Max: 10})
	taken := grow(t, client, l, "key", 8)
	d, err := l.AllowN(t.Context(), "key", 100-taken)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.Zero(t, client.Stats().LeasedUnits)
	require.Zero(t, remains(t, server, l, "key"))
	d, err = l.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.False(t, d.Allowed)
}

// AllowUpTo takes what is held, or what Redis has.
func TestLeasesUpTo(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	client, l := holder(t, server, ration.FixedWindow{Limit: 100, Window: time.Hour}, ration.Prefetch{Max: 10})
	taken := grow(t, client, l, "key", 8)
	d, err := l.AllowUpTo(t.Context(), "key", 5)
	require.NoError(t, err)
	require.Equal(t, ration.SourceLease, d.Source)
	require.EqualValues(t, 5, d.Granted)
	ration.AwaitLeases(client)
	taken += 5
	for range 2 {
		d, err = l.AllowUpTo(t.Context(), "key", 200)
		require.NoError(t, err)
		require.True(t, d.Allowed)
		taken += d.Granted
	}
	require.EqualValues(t, 100, taken, "at first what Redis has, and then what was held")
	d, err = l.AllowUpTo(t.Context(), "key", 200)
	require.NoError(t, err)
	require.False(t, d.Allowed)
}

// Another plan for the key, and Reset, end what is held.
func TestLeasesEndWithTheirPlan(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t, withoutBeats)
	plan := ration.FixedWindow{Limit: 100, Window: time.Hour}
	client, l := holder(t, server, plan, ration.Prefetch{Max: 10}, withoutBeats)
	taken := grow(t, client, l, "key", 8)
	d, err := l.Take(t.Context(), ration.Request{Key: "key", Cost: 1, Plan: ration.FixedWindow{Limit: 50, Window: time.Hour}})
	require.NoError(t, err)
	require.Equal(t, ration.SourceRedis, d.Source)
	ration.AwaitLeases(client)
	require.Equal(t, 100-taken-1, remains(t, server, l, "key")+client.Stats().LeasedUnits, "what was held is back")
	require.NoError(t, l.Reset(t.Context(), "key"))

	grow(t, client, l, "key", 8)
	require.NoError(t, l.Reset(t.Context(), "key"))
	require.Zero(t, client.Stats().LeasedUnits)
	require.EqualValues(t, 100, remains(t, server, l, "key"))
}

// While Redis is away what is held is granted; then the failure policy answers.
func TestLeasesInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := ration.FixedWindow{Limit: 1000, Window: time.Hour}
		o := newOutage(t, plan, 1, ration.OnFailure(ration.FailClosed()), ration.WithPrefetch(ration.Prefetch{Max: 20, TTL: time.Minute}))
		l, client := o.limiters[0], o.clients[0]
		taken := int64(0)
		for client.Stats().LeasedUnits < 15 {
			require.True(t, o.allow(t, 0, "key").Allowed)
			taken++
			synctest.Wait()
		}
		held := client.Stats().LeasedUnits
		o.Hang()
		for i := range held {
			d := o.allow(t, 0, "key")
			require.Equal(t, ration.SourceLease, d.Source, "unit %d", i)
			require.NoError(t, d.Cause)
		}
		require.Equal(t, ration.SourceFailClosed, o.allow(t, 0, "key").Source)
		o.Return()
		time.Sleep(10 * time.Second)
		d, err := l.Peek(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, 1000-taken-held, d.Remaining, "what was asked for in vain is not charged")
	})
}

// However many callers there are, and whatever Redis does, what is held is bounded, misses wait for nobody, and in the end all that nobody
// was granted is back.
func TestLeasesUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, most = 1_000_000, 50
		o := newOutage(t, ration.FixedWindow{Limit: limit, Window: time.Hour}, 2, ration.OnFailure(ration.FailClosed()),
			ration.WithPrefetch(ration.Prefetch{Max: most, TTL: 20 * time.Millisecond}))
		o.Delay(time.Millisecond)
		var mu sync.Mutex
		granted := make(map[string]int64)
		var all sync.WaitGroup
		seed := rand.Uint64()
		for i := range 100 {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			all.Go(func() {
				for range 200 {
					time.Sleep(time.Duration(random.IntN(1000)) * time.Microsecond)
					key, cost := fmt.Sprintf("key:%d", random.IntN(3)), 1+random.Int64N(3)
					began := time.Now()
					d, err := o.limiters[i%2].AllowN(t.Context(), key, cost)
					if err != nil || !d.Allowed {
						t.Error(d, err, seed)
					}
					if took := time.Since(began); took > 3*time.Millisecond {
						t.Error("it waited for", took)
					}
					if held := o.clients[i%2].Stats().LeasedUnits; held > 3*most {
						t.Error(held, "units are held")
					}
					mu.Lock()
					granted[key] += d.Granted
					mu.Unlock()
				}
			})
		}
		all.Wait()
		decisions := o.clients[0].Stats().Decisions
		require.Greater(t, decisions[ration.SourceLease], decisions[ration.SourceRedis])
		time.Sleep(time.Second)
		for _, client := range o.clients {
			require.Zero(t, client.Stats().LeasedUnits)
			require.Zero(t, client.Stats().LeasedKeys)
		}
		for key, units := range granted {
			d, err := o.limiters[0].Peek(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, limit-units, d.Remaining, "seed %d", seed)
		}
	})
}

// However many keys there are, leases of a bounded number are held.
func TestLeasesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 1000, Window: time.Hour}, 1, ration.WithLocalKeys(100),
			ration.WithPrefetch(ration.Prefetch{Max: 10}))
		for i := range 1000 {
			for range 6 {
				require.True(t, o.allow(t, 0, fmt.Sprintf("key:%d", i)).Allowed)
				synctest.Wait()
			}
			require.LessOrEqual(t, o.clients[0].Stats().LeasedKeys, int64(100))
		}
		require.EqualValues(t, 100, o.clients[0].Stats().LeasedKeys)
		time.Sleep(2 * time.Second)
		require.Zero(t, o.clients[0].Stats().LeasedKeys)
		require.Zero(t, o.clients[0].Stats().LeasedUnits)
	})
}

// Nobody asks for less than one, though another limiter of the name holds more than this one may.
func TestLeasesOfLimitersOfOneName(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t, withoutBeats)
	plan := ration.GCRA{Rate: ration.PerHour(1), Burst: 10_000}
	client, much := holder(t, server, plan, ration.Prefetch{Max: 1000, TTL: time.Minute}, withoutBeats)
	little, err := client.Limiter("search", plan, ration.WithPrefetch(ration.Prefetch{Max: 4, TTL: time.Minute}))
	require.NoError(t, err)
	for client.Stats().LeasedUnits < 100 {
		take(t, much, ration.Request{Key: "key", Cost: 1})
		ration.AwaitLeases(client)
	}
	require.Zero(t, ration.Reserve(little, "key"))
	require.Equal(t, ration.SourceLease, take(t, little, ration.Request{Key: "key", Cost: 1}).Source, "they count together")
}

// What is on its way when a Client closes goes back too.
func TestCloseWhileUnitsAreTakenAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ration.FixedWindow{Limit: 100_000, Window: time.Hour}, 1, ration.WithTimeout(time.Second),
			ration.WithPrefetch(ration.Prefetch{Max: 1000, TTL: time.Minute}))
		granted := int64(0)
		for range 10 {
			d, err := o.limiters[0].AllowN(t.Context(), "key", 400)
			require.NoError(t, err)
			granted += d.Granted
		}
		o.Delay(300 * time.Millisecond)
		var all sync.WaitGroup
		all.Go(func() {
			d, err := o.limiters[0].AllowN(t.Context(), "key", 400)
			if err != nil || d.Source != ration.SourceRedis {
				t.Error(d, err)
			}
			granted += d.Granted
		})
		time.Sleep(100 * time.Millisecond)
		o.clients[0].Close()
		all.Wait()
		time.Sleep(time.Second)
		require.Equal(t, granted, o.Used("key"))
	})
}

// Plans in turn lose nothing: what was asked for under one, or is held, goes back when the other comes.
func TestLeasesOfPlansInTurn(t *testing.T) {
	t.Parallel()
	for _, plans := range [][2]ration.Plan{
		{ration.FixedWindow{Limit: 100_000, Window: time.Hour}, ration.FixedWindow{Limit: 90_000, Window: time.Hour}},
		{ration.SlidingLog{Limit: 100_000, Window: time.Hour}, ration.SlidingLog{Limit: 90_000, Window: time.Hour}},
		{ration.SlidingWindow{Limit: 100_000, Window: time.Hour}, ration.SlidingWindow{Limit: 90_000, Window: time.Hour}},
	} {
		server := rationtest.New(t, withoutBeats)
		client, l := holder(t, server, plans[0], ration.Prefetch{Max: 200, TTL: time.Second}, withoutBeats)
		limit := remains(t, server, l, "key")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range 200 {
					d, err := l.Take(t.Context(), ration.Request{Key: "key", Cost: 1, Plan: plans[(i%20)/19]})
					if err != nil || !d.Allowed {
						t.Error(d, err)
					}
				}
			})
		}
		all.Wait()
		ration.AwaitLeases(client)
		client.Close()
		require.Equal(t, limit-4*200, remains(t, server, l, "key"), "%v", plans[0])
	}
}

// What is held goes back before another plan changes what is stored.
func TestLeasesGoBackBeforeAnotherPlan(t *testing.T) {
	t.Parallel()
	for _, plans := range [][2]ration.Plan{
		{ration.TokenBucket{Rate: ration.PerHour(1000), Burst: 1000}, ration.TokenBucket{Rate: ration.PerHour(1000), Burst: 999}},
		{ration.FixedWindow{Limit: 1000, Window: time.Hour}, ration.FixedWindow{Limit: 999, Window: time.Minute}},
		{ration.SlidingWindow{Limit: 1000, Window: time.Hour}, ration.SlidingWindow{Limit: 999, Window: time.Minute}},
	} {
		server := rationtest.New(t, withoutBeats)
		client, l := holder(t, server, plans[0], ration.Prefetch{Max: 50, TTL: time.Minute}, withoutBeats)
		taken := grow(t, client, l, "key", 40)
		d := take(t, l, ration.Request{Key: "key", Plan: plans[1]})
		limit := int64(999)
		if _, isBucket := plans[0].(ration.TokenBucket); isBucket {
			limit = 1000 // its level is kept, and not what is missing
		}
		require.Equal(t, limit-taken, d.Remaining, "%v", plans[1])
	}
}

// The shards of a key hold no more than Max together.
func TestLeasesOfShards(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t, withoutBeats)
	client, err := ration.New(server.NewRedis(t), ration.WithTimeout(time.Minute), withoutBeats)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	l, err := client.Limiter("search", ration.GCRA{Rate: ration.PerMinute(100_000), Burst: 100_000}, ration.WithShards(4),
		ration.WithPrefetch(ration.Prefetch{Max: 50, TTL: time.Minute}))
	require.NoError(t, err)
	for range 500 {
		require.True(t, take(t, l, ration.Request{Key: "key", Cost: 1}).Allowed)
		require.LessOrEqual(t, client.Stats().LeasedUnits, int64(50))
	}
	require.Greater(t, client.Stats().Decisions[ration.SourceLease], int64(250))
}

// Of a tag nothing is held: each of its keys would hold Max units of one quota.
func TestNoLeasesOfTags(t *testing.T) {
	t.Parallel()
	client, l := holder(t, rationtest.New(t), ration.MultiPlan{
		{Name: "user", Plan: hourly},
		{Name: "tenant", Plan: ration.FixedWindow{Limit: 1000, Window: time.Hour}, Scope: ration.PerTag},
	}, ration.Prefetch{Max: 10})
	for range 5 {
		require.Equal(t, ration.SourceRedis, take(t, l, ration.Request{Key: "{acme}:user:7", Cost: 1}).Source)
	}
	require.Zero(t, client.Stats().LeasedUnits)
}

// Denials are remembered where units are taken ahead, too.
func TestDenialsBesideLeases(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	client, l := holder(t, server, ration.FixedWindow{Limit: 100, Window: time.Hour}, ration.Prefetch{Max: 10})
	for client.Stats().Decisions[ration.SourceRedis] == 0 || remains(t, server, l, "key")+client.Stats().LeasedUnits > 0 {
		_, err := l.Allow(t.Context(), "key")
		require.NoError(t, err)
		ration.AwaitLeases(client)
	}
	for i := range 5 {
		d, err := l.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.False(t, d.Allowed)
		if i > 1 {
			require.Equal(t, ration.SourceDenyCache, d.Source, "denial %d", i)
		}
	}
}

// What a process cannot tell whether its window is over is not granted: Redis says in whole milliseconds how long it lasts.
func TestLeasesEndBeforeTheirWindow(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t, withoutBeats)
	server.Advance(900 * time.Microsecond) // the window closes at a whole millisecond, in a minute
	client, l := holder(t, server, ration.FixedWindow{Limit: 100, Window: time.Minute, Aligned: true}, ration.Prefetch{Max: 10, TTL: time.Minute}, withoutBeats)
	grow(t, client, l, "key", 8)
	server.Advance(time.Minute - 900*time.Microsecond)
	d, err := l.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, ration.SourceRedis, d.Source)
}

func TestWithPrefetch(t *testing.T) {
	t.Parallel()
	client := rationtest.New(t).Client
	for _, p := range []ration.Prefetch{{}, {Max: -1}, {Max: 10_001}, {Max: 1, TTL: -1}, {Max: 1, TTL: time.Minute + 1}} {
		_, err := client.Limiter("search", hourly, ration.WithPrefetch(p))
		require.ErrorIs(t, err, ration.ErrInvalidOption)
		require.ErrorContains(t, err, "WithPrefetch")
	}
	for _, plan := range []ration.Plan{
		ration.FixedWindow{Limit: 10, Window: time.Hour, RestartOnDeny: true},
		ration.FixedWindow{Limit: 10, Window: time.Hour},
	} {
		most := int64(10)
		if plan == (ration.FixedWindow{Limit: 10, Window: time.Hour}) {
			most = 1
		}
		other, l := holder(t, rationtest.New(t), plan, ration.Prefetch{Max: most})
		for range 10 {
			d, err := l.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Equal(t, ration.SourceRedis, d.Source)
		}
		require.Zero(t, other.Stats().LeasedUnits)
	}
}

// Whoever asks faster than Redis could answer is answered by whole leases, and asks in the background only where more comes in time.
func TestLeasesThatRunOut(t *testing.T) {
	t.Parallel()
	const most, requests = 50, 2000
	for pause, isInTime := range map[time.Duration]bool{0: false, time.Microsecond: false, 200 * time.Microsecond: true} {
		synctest.Test(t, func(t *testing.T) {
			o := newOutage(t, ration.FixedWindow{Limit: 1_000_000, Window: time.Hour}, 1, ration.OnFailure(ration.FailClosed()), neverOpen,
				ration.WithTimeout(time.Second), ration.WithPrefetch(ration.Prefetch{Max: most, TTL: time.Minute}))
			o.Delay(time.Millisecond)
			waited := 0
			for i := range requests {
				before := time.Now()
				require.True(t, o.allow(t, 0, "key").Allowed)
				if i >= requests/2 && time.Since(before) > 0 {
					waited++
				}
				time.Sleep(pause)
			}
			if isInTime {
				require.Zero(t, waited, "requests that waited")
			} else {
				require.LessOrEqual(t, o.Runs("take"), requests/most+8, "script calls, with those until leases have grown")
			}
		})
	}
}
