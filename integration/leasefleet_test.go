package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/audit"
)

const leaseMax = 50

// startHolders starts processes that take units of one key ahead of need.
func startHolders(t *testing.T, s *server, n int, m member) (fleet []*process) {
	t.Helper()
	m.Addr, m.Key, m.FleetSize = s.addr, "tenant:42", n
	if m.Prefetch.Max == 0 {
		m.Prefetch = ration.Prefetch{Max: leaseMax}
	}
	config, err := json.Marshal(m)
	require.NoError(t, err)
	for range n {
		fleet = append(fleet, startProcess(t, memberVariable, string(config)))
	}
	for _, p := range fleet {
		p.awaitReady(t)
	}
	return fleet
}

// offerFor has processes offer for a time, from now on.
func offerFor(t *testing.T, s *server, fleet []*process, span time.Duration) {
	t.Helper()
	now, err := s.rdb.Time(t.Context()).Result()
	require.NoError(t, err)
	start := now.Add(200 * time.Millisecond)
	for _, p := range fleet {
		p.send(t, order{Start: start.UnixMicro(), End: start.Add(span).UnixMicro()})
	}
}

func admissionsOf(offers []offer) (admissions []audit.Admission) {
	for _, o := range offers {
		if o.Allowed {
			admissions = append(admissions, audit.Admission{Before: o.Before, After: o.After, Units: 1})
		}
	}
	return admissions
}

// Eight processes that take units ahead use up a quota of 1,000 in two seconds, for half a minute: Redis never grants more, no window admits
// more, and at least 95 % are used.
func TestLeasesOf8Processes(t *testing.T) {
	t.Parallel()
	const limit, window, span = 1000, 2 * time.Second, 29900 * time.Millisecond
	plan := ration.FixedWindow{Limit: limit, Window: window}
	s := startServer(t, redis8)
	prefix := freshPrefix()
	fleet := startHolders(t, s, fleetSize, member{Prefix: prefix, Plan: plan.String()})
	offerFor(t, s, fleet, span)
	stop, most := make(chan struct{}), make(chan int64)
	go func() {
		granted := int64(0)
		for {
			select {
			case <-stop:
				most <- granted
				return
			case <-time.After(5 * time.Millisecond):
				now, _ := s.rdb.Get(t.Context(), prefix+":fleet:fw1w:{tenant:42}").Int64() // none between two windows
				granted = max(granted, now)
			}
		}
	}()
	var offers []offer
	for _, p := range fleet {
		offers = append(offers, p.report(t)...)
	}
	close(stop)
	granted := <-most
	admissions := admissionsOf(offers)
	excess, err := audit.Excess(plan, admissions)
	require.NoError(t, err)
	t.Logf("%d admitted of %d offers, %d granted at most in a window", len(admissions), len(offers), granted)
	require.Zero(t, excess, "units admitted beyond the plan")
	require.Positive(t, granted)
	require.LessOrEqual(t, granted, int64(limit), "units granted in a window")
	require.GreaterOrEqual(t, len(admissions), limit*15*95/100)
}

// Of the other plans as much more may be admitted as the processes hold, at most; and nearly all of the quota is used.
func TestLeasesOf8ProcessesWithinTheirBound(t *testing.T) {
	t.Parallel()
	s := startServer(t, redis8)
	const span = 10 * time.Second
	for _, plan := range []ration.Plan{
		ration.TokenBucket{Rate: ration.PerSecond(500), Burst: 1000},
		ration.GCRA{Rate: ration.PerSecond(500), Burst: 1000},
		ration.SlidingLog{Limit: 1000, Window: 2 * time.Second},
		ration.SlidingWindow{Limit: 1000, Window: 2 * time.Second},
	} {
		fleet := startHolders(t, s, fleetSize, member{Prefix: freshPrefix(), Plan: plan.String()})
		offerFor(t, s, fleet, span)
		var offers []offer
		for _, p := range fleet {
			offers = append(offers, p.report(t)...)
		}
		admissions := admissionsOf(offers)
		excess, err := audit.Excess(plan, admissions)
		require.NoError(t, err)
		t.Logf("%v: %d admitted of %d offers, %d beyond the plan", plan, len(admissions), len(offers), excess)
		require.LessOrEqual(t, excess, int64(fleetSize*leaseMax))
		require.GreaterOrEqual(t, len(admissions), 5000*95/100)
	}
}

// When all have closed, what they held is back.
func TestLeasesAreBackAfterClose(t *testing.T) {
	t.Parallel()
	s := startServer(t, redis8)
	for _, plan := range []ration.Plan{
		ration.FixedWindow{Limit: 100_000, Window: time.Hour},
		ration.SlidingLog{Limit: 100_000, Window: time.Hour},
		ration.SlidingWindow{Limit: 1_000_000, Window: 24 * time.Hour},
		ration.TokenBucket{Rate: ration.PerHour(1), Burst: 100_000},
	} {
		prefix := freshPrefix()
		fleet := startHolders(t, s, 4, member{Prefix: prefix, Plan: plan.String()})
		offerFor(t, s, fleet, 500*time.Millisecond)
		admitted := 0
		for _, p := range fleet {
			admitted += len(admissionsOf(p.report(t)))
		}
		limiter, err := newClient(t, s.rdb, ration.WithPrefix(prefix)).Limiter("fleet", plan)
		require.NoError(t, err)
		d, err := byRedis(limiter.Peek(t.Context(), "tenant:42"))
		require.NoError(t, err)
		require.Positive(t, admitted)
		require.Equal(t, d.Limit-int64(admitted), d.Remaining, "%v", plan)
	}
}

// A process that is killed takes what it holds along, and nothing else.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	s := startServer(t, redis8)
	plan := ration.FixedWindow{Limit: 100_000, Window: time.Hour}
	prefix := freshPrefix()
	fleet := startHolders(t, s, 1, member{
		Prefix: prefix, Plan: plan.String(), Lingers: true, Prefetch: ration.Prefetch{Max: leaseMax, TTL: time.Minute},
	})
	offerFor(t, s, fleet, 500*time.Millisecond)
	var offers []offer
	require.NoError(t, json.NewDecoder(fleet[0].reports).Decode(&offers))
	require.NoError(t, fleet[0].command.Process.Kill())
	require.Error(t, fleet[0].command.Wait())
	require.False(t, slices.ContainsFunc(offers, func(o offer) bool { return !o.Allowed }))
	granted, err := s.rdb.Get(t.Context(), prefix+":fleet:fw1w:{tenant:42}").Int64()
	require.NoError(t, err)
	lost := granted - int64(len(offers))
	t.Logf("%d of %d units are lost", lost, granted)
	require.Positive(t, lost)
	require.LessOrEqual(t, lost, int64(leaseMax))
}

// A node that hangs keeps what is held of its own keys, when a Client closes, and nothing that is held of others'.
func TestCloseWhileANodeHangs(t *testing.T) {
	t.Parallel()
	const keys, each = 120, 8
	c := startCluster(t, redis8)
	rdb := c.newRedis(t, nil)
	prefix := freshPrefix()
	plan := ration.FixedWindow{Limit: 100_000, Window: time.Hour}
	client := newClient(t, rdb, ration.WithPrefix(prefix))
	limiter, err := client.Limiter("limiter", plan, ration.WithPrefetch(ration.Prefetch{Max: leaseMax, TTL: time.Minute}))
	require.NoError(t, err)
	granted, ofHanging := make(map[string]int64), make(map[string]bool)
	hangs, err := rdb.MasterForKey(t.Context(), prefix+":limiter:fw1w:{tenant:0}")
	require.NoError(t, err)
	for i := range keys {
		key := fmt.Sprintf("tenant:%d", i)
		for range each {
			d, err := byRedis(limiter.Allow(t.Context(), key))
			require.NoError(t, err)
			granted[key] += d.Granted
		}
		master, err := rdb.MasterForKey(t.Context(), prefix+":limiter:fw1w:{"+key+"}")
		require.NoError(t, err)
		ofHanging[key] = master.Options().Addr == hangs.Options().Addr
	}
	require.Greater(t, client.Stats().LeasedUnits, int64(keys))
	_, port, err := net.SplitHostPort(hangs.Options().Addr)
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	c.signal(t, number, "STOP")
	client.Close()
	c.signal(t, number, "CONT")
	c.awaitWhole(t)
	others := 0
	for key, units := range granted {
		if ofHanging[key] {
			continue
		}
		others++
		used, err := rdb.Get(t.Context(), prefix+":limiter:fw1w:{"+key+"}").Int64()
		require.NoError(t, err)
		require.Equal(t, units, used, key)
	}
	require.Greater(t, others, keys/3)
}
