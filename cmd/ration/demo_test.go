package main

import (
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration/cmd/ration/internal/fleet"
)

// row finds the numbers behind the name of a row of the table.
func row(t *testing.T, out, name string) []string {
	t.Helper()
	for line := range strings.Lines(out) {
		if cells := strings.Fields(line); len(cells) > 1 && cells[0] == name {
			return cells[1:]
		}
	}
	t.Fatalf("no row %s in\n%s", name, out)
	return nil
}

func TestDemo(t *testing.T) {
	t.Parallel()
	for _, plan := range []string{
		"token-bucket 20/s burst 5",
		"fixed-window 10/500ms",
		"fixed-window 10/500ms aligned",
		"fixed-window 10/500ms restart-on-deny",
		"sliding-window 10/500ms",
		"sliding-log 10/500ms",
		"gcra 20/s burst 5",
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			got := command(t.Context(), nil, "demo", "--plan", plan, "--duration", "1s", "--instances", "4", "--load", "6",
				"--timeout", "1m")
			require.Zero(t, got.status, got.err)
			require.Empty(t, got.err)
			require.NotContains(t, got.out, "\x1b", "colours without a terminal")
			requireColumns(t, 80, got.out)
			require.Contains(t, got.out, plan+", shared by 4 instances\nthrough an embedded Redis\n  1s: ")
			for _, name := range []string{"1", "2", "3", "4"} {
				require.Len(t, row(t, got.out, name), 5, got.out)
			}
			limit := row(t, got.out, "limit")
			excess := row(t, got.out, "excess")
			require.Equal(t, "0", excess[0], "excess")
			if !strings.Contains(got.out, "could not be offered") { // the machine keeps up
				require.Equal(t, "120", row(t, got.out, "all")[0], "offered")
				require.NotEqual(t, "0", excess[1], "unshared excess")
			}
			require.Equal(t, limit[0], limit[1])
			require.Regexp(t, `4 instances sharing one quota let \d+ callers through, where `+limit[0]+`\s+are allowed`, got.out)
			require.Regexp(t, `latency: of a decision, p50 \S+s, p99 \S+s\n`, got.out)
		})
	}
}

// The key is a fresh one in each run, and gone afterwards, so that runs on one Redis do not disturb each other.
func TestDemoOnRedis(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	for range 2 {
		got := command(t.Context(), nil, "demo", "--redis", "redis://"+redis.Addr(), "--plan", "fixed-window 10/1h",
			"--duration", "100ms", "--load", "1e6", "--timeout", "1m")
		require.Zero(t, got.status, got.err)
		requireAdmitted(t, 10, got.out)
		require.Empty(t, redis.Keys())
	}
	got := command(t.Context(), nil, "demo", "--redis", "redis://"+redis.Addr()+"?addr="+redis.Addr(),
		"--plan", "fixed-window 10/1h", "--duration", "100ms", "--load", "1e6", "--timeout", "1m")
	require.Zero(t, got.status, got.err)
	require.Contains(t, got.out, "Redis Cluster at ")
	requireAdmitted(t, 10, got.out)
}

// requireAdmitted fails if a fleet was not let through up to a limit.
func requireAdmitted(t *testing.T, limit int, out string) {
	t.Helper()
	all := row(t, out, "all")
	offered, err := strconv.Atoi(all[0])
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(min(offered, limit)), all[1], out)
}

func startRedis(t *testing.T) *miniredis.Miniredis {
	t.Helper()
	redis := miniredis.NewMiniRedis()
	require.NoError(t, redis.Start())
	t.Cleanup(redis.Close)
	return redis
}

// A Redis that grants whatever it is asked for is found out.
func TestDemoFindsExcess(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	redis.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "EVALSHA" {
			return false
		}
		c.WriteLen(6)
		for _, n := range []int{1, 0, 0, 0, 0, 0} {
			c.WriteInt(n)
		}
		return true
	})
	got := command(t.Context(), nil, "demo", "--redis", "redis://"+redis.Addr(),
		"--plan", "token-bucket 10/s burst 5", "--load", "10", "--duration", "1s", "--timeout", "1m")
	require.Equal(t, 1, got.status)
	excess := row(t, got.out, "excess")[0]
	require.NotEqual(t, "0", excess)
	require.Equal(t, "ration: the quota was exceeded by "+excess+"\n", got.err)
	require.Contains(t, got.out, "The quota did not hold: "+excess+" of ")
}

func TestJudge(t *testing.T) {
	t.Parallel()
	require.NoError(t, judge(fleet.Result{}))
	require.ErrorIs(t, judge(fleet.Result{Excess: 1}), errExcess)
}

func TestDemoUnreachable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	begin := time.Now()
	got := command(t.Context(), nil, "demo", "--redis", "redis://:secret@"+address)
	require.Less(t, time.Since(begin), 10*time.Second)
	require.Equal(t, ended{1, "", "ration: cannot reach Redis at " + address + ": dial tcp " + address +
		": connect: connection refused\n"}, got)
}

// A Redis that is there and decides nothing is an error, not a quota that held.
func TestDemoDecidesNothing(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	refuse(redis, "NOPERM no scripts for you")
	got := command(t.Context(), nil, "demo", "--redis", "redis://"+redis.Addr(), "--duration", "100ms")
	require.Equal(t, 1, got.status)
	require.Equal(t, "ration: no request was decided: limiter \"demo\": redis unavailable: fault of configuration: NOPERM no scripts for you\n", got.err)
}

// refuse has a Redis answer an error to every script.
func refuse(redis *miniredis.Miniredis, text string) {
	redis.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "EVALSHA" {
			return false
		}
		c.WriteError(text)
		return true
	})
}

// Errors have a column if there are any.
func TestDemoErrors(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	var calls atomic.Int64
	redis.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "EVALSHA" || calls.Add(1)%3 != 0 {
			return false
		}
		c.WriteError("OOM no memory")
		return true
	})
	got := command(t.Context(), nil, "demo", "--redis", "redis://"+redis.Addr(), "--plan", "token-bucket 10/s burst 5",
		"--duration", "1s", "--instances", "1", "--timeout", "1m")
	require.Zero(t, got.status, got.err)
	require.Regexp(t, `admitted +denied +errors +unshared: admitted +denied\n`, got.out)
	all := row(t, got.out, "all")
	require.Len(t, all, 6)
	errs := strconv.FormatInt(calls.Load()/3, 10) // denials that are remembered are no calls
	require.Equal(t, errs, all[3])
	require.Contains(t, strings.Join(strings.Fields(got.out), " "),
		errs+" requests got no decision, the last because: limiter \"demo\": redis unavailable: OOM no memory")
	require.Regexp(t, `1s: `+all[0]+` offered, \d+ admitted, \d+ denied, `+errs+` errors\n`, got.out)
	requireColumns(t, 80, got.out)
}

// A run that is interrupted prints its table all the same.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	got := interrupted(t, regexp.MustCompile(`1s: \d+ offered`), "demo", "--duration", "1h", "--load", "0.05", "--timeout", "1m")
	require.Zero(t, got.status)
	require.Len(t, row(t, got.out, "all"), 5, got.out)
	require.NotContains(t, got.out, "could not be offered")
}

func TestRemarks(t *testing.T) {
	t.Parallel()
	require.Empty(t, remarks(fleet.Result{All: fleet.Tally{Offered: 2, Admitted: 1, Denied: 1}}))
	require.Contains(t, remarks(fleet.Result{All: fleet.Tally{Offered: 1, Admitted: 1}}), "Nothing had to be denied")
	require.Contains(t, remarks(fleet.Result{Late: 1}), "1 request could not be offered")
	require.Contains(t, remarks(fleet.Result{Untimed: 2}), "2 admissions could not be audited")
	require.Contains(t, remarks(fleet.Result{Leftover: io.ErrUnexpectedEOF}), "could not be deleted")
}
