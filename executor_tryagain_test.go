package ration_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// onTheMove answers a number of times that the keys are on their way to another node, and then something else.
func onTheMove(times int64, then server.Cmd) server.Cmd {
	var answered atomic.Int64
	return func(c *server.Peer, cmd string, args []string) {
		if answered.Add(1) <= times {
			c.WriteError("TRYAGAIN Multiple keys request during rehashing of slot")
			return
		}
		then(c, cmd, args)
	}
}

// A script whose keys are on their way from one node to another did not run, and is sent until it does.
func TestKeysOnTheMove(t *testing.T) {
	t.Parallel()
	const times = 6
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": onTheMove(times, granted)})
	_, limiter := f.limiter(t, ration.WithTimeout(10*time.Second))
	begin := time.Now()
	d, err := limiter.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.EqualValues(t, 4, d.Remaining)
	require.Equal(t, times+1, f.received("EVALSHA"))
	// It is not sent without a pause: the first is of a millisecond, and each is twice the one before, up to sixteen.
	require.GreaterOrEqual(t, time.Since(begin), (1+2+4+8+16+16)*time.Millisecond)
}

// The node that the keys move to may not know the script, before or after.
func TestKeysOnTheMoveAndUnknownScript(t *testing.T) {
	t.Parallel()
	unknown := func(c *server.Peer, _ string, _ []string) { c.WriteError("NOSCRIPT No matching script.") }
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": onTheMove(2, unknown), "EVAL": onTheMove(2, granted)})
	_, limiter := f.limiter(t, ration.WithTimeout(10*time.Second))
	d, err := limiter.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.Equal(t, 3, f.received("EVALSHA"))
	require.Equal(t, 3, f.received("EVAL"))
}

// Another error than that ends it.
func TestKeysOnTheMoveAndAFault(t *testing.T) {
	t.Parallel()
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": onTheMove(2, func(c *server.Peer, _ string, _ []string) {
		c.WriteError("CLUSTERDOWN Hash slot not served")
	})})
	_, limiter := f.limiter(t, ration.WithTimeout(10*time.Second))
	err := failure(limiter.Allow(t.Context(), "key"))
	require.ErrorIs(t, err, ration.ErrUnavailable)
	require.NotErrorIs(t, err, ration.ErrTimeout)
	require.ErrorContains(t, err, "CLUSTERDOWN")
	require.Equal(t, 3, f.received("EVALSHA"))
}

// Keys that do not arrive hold a caller for its timeout, and nothing is sent for a caller who has left.
func TestKeysOnTheMoveForEver(t *testing.T) {
	t.Parallel()
	b := newBlocker(t, func(c *server.Peer, _ string, _ []string) { c.WriteError("TRYAGAIN Multiple keys request") })
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": b.handle})
	b.open()
	client, limiter := f.limiter(t) // 10 ms by default
	begin := time.Now()
	err := failure(limiter.Allow(t.Context(), "key"))
	require.ErrorIs(t, err, ration.ErrUnavailable)
	require.ErrorIs(t, err, ration.ErrTimeout)
	require.ErrorContains(t, err, "no answer within 10ms: TRYAGAIN Multiple keys request")
	require.Less(t, time.Since(begin), soon)

	begin = time.Now()
	client.Close() // waits for the call
	require.Less(t, time.Since(begin), soon)
	require.Positive(t, f.received("EVALSHA"))
}

// A key may expire between the node's look at it and the script's: where its slot moves, it is the other node's from then on.
// Nothing was done by the script, which is sent again.
func TestKeyOverWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	var answered atomic.Int64
	f := newFakeRedis(t, map[string]server.Cmd{"EVALSHA": func(c *server.Peer, cmd string, args []string) {
		if answered.Add(1) == 1 {
			c.WriteError("ERR Script attempted to access a non local key in a cluster node script: 06cc, on @user_script:107.")
			return
		}
		granted(c, cmd, args)
	}})
	_, limiter := f.limiter(t, ration.WithTimeout(10*time.Second))
	d, err := limiter.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.Equal(t, 2, f.received("EVALSHA"))
}
