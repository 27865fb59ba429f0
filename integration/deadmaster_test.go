package integration

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/go-ration/ration"
)

// A master of three that does not answer, and that no replica follows, costs its own keys their decisions by Redis, and those of the
// others nothing: not one is decided without Redis, and each is charged. Once the breaker of its node is open, its keys are not
// asked for any more.
func TestDeadMasterCostsOthersNothing(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]string{"killed": "KILL", "hung": "STOP"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testDeadMaster(t, signal)
		})
	}
}

// breakerRecorder remembers the breakers that changed.
type breakerRecorder struct {
	mu   sync.Mutex
	seen []ration.ObservedBreaker
}

func (*breakerRecorder) ObserveDecision(context.Context, ration.ObservedDecision) {}

func (r *breakerRecorder) ObserveBreaker(o ration.ObservedBreaker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, o)
}

func testDeadMaster(t *testing.T, signal string) {
	const (
		callers = 50
		each    = 20
	)
	// That nobody is given up keeps the replica from taking over.
	c := startCluster(t, redis8, testcontainers.WithEnv(map[string]string{"NODE_TIMEOUT": neverGivenUp}))
	c.configure(t, "cluster-require-full-coverage", "no", c.ports...)
	shards := c.shards(t)
	dead, others := shards[0], shards[1:]

	// Fewer places than callers, and no probe while the test runs.
	var breakers breakerRecorder
	client := newClient(t, c.newRedis(t, nil), ration.WithMaxInFlight(callers/5), ration.WithBreaker(ration.Breaker{Probe: time.Hour}),
		ration.OnFailure(ration.FailOpen()), ration.WithObserver(&breakers))
	plan := ration.FixedWindow{Limit: callers * each, Window: time.Hour}
	patient, err := client.Limiter("patient", plan)
	require.NoError(t, err)
	hurried, err := client.Limiter("hurried", plan, ration.WithTimeout(100*time.Millisecond))
	require.NoError(t, err)
	for _, s := range shards { // so that their nodes are known
		_, err := byRedis(patient.Peek(t.Context(), "{"+s.tag+"}"))
		require.NoError(t, err)
	}

	c.signal(t, dead.master, signal)
	var ofDead []timedCall
	ofOthers := make([][]timedCall, len(others))
	var group sync.WaitGroup
	group.Go(func() { ofDead = makeCalls(hurried, "{"+dead.tag+"}", callers, each) })
	for i, s := range others {
		group.Go(func() { ofOthers[i] = makeCalls(patient, "{"+s.tag+"}", callers, each) })
	}
	group.Wait()

	for i, s := range others {
		logTimes(t, ofOthers[i])
		for _, call := range ofOthers[i] {
			d, err := byRedis(call.decision, call.err)
			require.NoError(t, err)
			require.Equal(t, ration.SourceRedis, d.Source)
			require.True(t, d.Allowed)
		}
		d, err := byRedis(patient.Peek(t.Context(), "{"+s.tag+"}"))
		require.NoError(t, err)
		require.Zero(t, d.Remaining)
	}
	for _, call := range append(ofDead, makeCalls(patient, "{"+dead.tag+"}", 1, 10)...) {
		require.NoError(t, call.err)
		require.Equal(t, ration.SourceFailOpen, call.decision.Source)
		require.ErrorIs(t, call.decision.Cause, ration.ErrUnavailable)
	}
	for _, call := range makeCalls(patient, "{"+dead.tag+"}", callers, each) {
		require.Equal(t, ration.SourceFailOpen, call.decision.Source)
		require.ErrorIs(t, call.decision.Cause, ration.ErrBreakerOpen)
	}
	require.Len(t, breakers.seen, 1)
	require.Equal(t, address(dead.master), breakers.seen[0].Node)
	require.True(t, breakers.seen[0].Open)
}

// Keys that a process has not asked for yet lose nothing to a master that does not answer, if they are another's.
func TestDeadMasterCostsNewKeysOfOthersNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t, redis8, testcontainers.WithEnv(map[string]string{"NODE_TIMEOUT": neverGivenUp}))
	c.configure(t, "cluster-require-full-coverage", "no", c.ports...)
	shards := c.shards(t)
	client := newClient(t, c.newRedis(t, nil), ration.OnFailure(ration.FailOpen()))
	plan := ration.FixedWindow{Limit: 5, Window: time.Hour}
	patient, err := client.Limiter("patient", plan)
	require.NoError(t, err)
	hurried, err := client.Limiter("hurried", plan, ration.WithTimeout(100*time.Millisecond))
	require.NoError(t, err)
	_, err = byRedis(patient.Allow(t.Context(), "{"+shards[1].tag+"}"))
	require.NoError(t, err)

	c.signal(t, shards[0].master, "STOP")
	var ofDead, ofOthers []string
	for n := 0; len(ofDead) < 10 || len(ofOthers) < 10; n++ {
		key := "key" + strconv.Itoa(n)
		stored, err := c.rdb.MasterForKey(t.Context(), key)
		require.NoError(t, err)
		if stored.Options().Addr == address(shards[0].master) {
			ofDead = append(ofDead, key)
		} else {
			ofOthers = append(ofOthers, key)
		}
	}
	for _, key := range ofDead {
		d, err := hurried.Allow(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, ration.SourceFailOpen, d.Source)
	}
	for _, key := range ofOthers {
		_, err := byRedis(patient.Allow(t.Context(), key))
		require.NoError(t, err)
	}
}
