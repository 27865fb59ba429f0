package main

import (
	"encoding/xml"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration/cmd/ration/internal/drill"
)

// requireDrill fails if what a drill printed is not as it should be, whatever the machine made of the times in it.
func requireDrill(t *testing.T, policy string, got ended) {
	t.Helper()
	requireColumns(t, 80, got.out)
	require.NotContains(t, got.out, "\x1b", "colours without a terminal")
	require.Regexp(t, `(?m)^  s  Redis +offered +admitted +by redis +by `+policy+` +p50 ms +p99 ms +max ms +excess$`, got.out)
	require.Regexp(t, `(?m)^  1  (healthy|stopped) `, got.out)
	require.Regexp(t, `(?m)^bound +measured +allowed$`, got.out)
	require.Regexp(t, `(?m)^slowest decision `, got.out)
	if strings.Contains(got.out, "BROKEN") {
		require.Equal(t, 1, got.status)
		require.Regexp(t, `^ration: the outage broke bounds: \d+ of \d+\n$`, got.err)
		return
	}
	require.Equal(t, ended{0, got.out, ""}, got)
	require.Contains(t, got.out, "held.\n")
}

// phase finds the numbers of the first phase in which Redis was in a state: offered, admitted, of quota, by redis, by the policy, p99.
func phase(t *testing.T, out, state string) []string {
	t.Helper()
	return row(t, out, state+",")[1:]
}

// requireForgotten holds that nothing is left in a Redis but who was there, for a minute: in an outage nobody can be crossed out.
func requireForgotten(t *testing.T, redis *miniredis.Miniredis) {
	t.Helper()
	for _, key := range redis.Keys() {
		require.Equal(t, "ration:drill:fl1w:{drill}", key)
		require.Equal(t, time.Minute, redis.TTL(key))
	}
}

func TestDrill(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"local", "open", "closed"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			redis := startRedis(t)
			picture := filepath.Join(t.TempDir(), "outage.svg")
			got := command(t.Context(), nil, "drill", "--redis", "redis://"+redis.Addr(), "--plan", "token-bucket 50/s burst 20",
				"--instances", "2", "--policy", policy, "--phase", "1s", "--timeout", "300ms", "--latency", "1s", "--plot", picture)
			requireDrill(t, policy, got)
			require.Contains(t, got.out, "token-bucket 50/s burst 20, shared by 2 instances, which are offered 150/s\n"+
				"through Redis at "+redis.Addr()+", breaking only connections to it\ntimeout 300ms, policy "+policy+"\n")
			require.NotEqual(t, "0", phase(t, got.out, "healthy")[3], "by Redis")
			for _, state := range []string{"stopped", "killed", "slow"} {
				require.NotEqual(t, "0", phase(t, got.out, state)[4], "without Redis, which is %s", state)
				require.Contains(t, got.out, "admitted while "+state)
			}
			requireForgotten(t, redis)

			file, err := os.Open(picture)
			require.NoError(t, err)
			defer func() { _ = file.Close() }()
			require.NoError(t, xml.NewDecoder(file).Decode(new(struct{})))
		})
	}
}

// A cluster is broken as a whole; here one of a single server.
func TestDrillOnCluster(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	got := command(t.Context(), nil, "drill", "--redis", "redis://"+redis.Addr()+"?addr="+redis.Addr(),
		"--instances", "2", "--phase", "1s", "--timeout", "300ms", "--latency", "1s")
	requireDrill(t, "local", got)
	require.Contains(t, got.out, "through Redis Cluster at ")
	require.NotEqual(t, "0", phase(t, got.out, "healthy")[3], "by Redis")
	require.NotEqual(t, "0", phase(t, got.out, "stopped")[4], "by local")
	requireForgotten(t, redis)
}

// The server is a process of its own, and nothing is left of it.
func TestDrillOwnServer(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no redis-server in PATH: in CI it must be")
		}
		t.Skip("LEFT OUT: no redis-server in PATH, so that none is really stopped and killed")
	}
	directory := t.TempDir()
	t.Setenv("TMPDIR", directory)
	got := command(t.Context(), nil, "drill", "--instances", "2", "--phase", "1s", "--timeout", "300ms", "--latency", "1s")
	requireDrill(t, "local", got)
	require.Contains(t, got.out, "through a redis-server of its own\n")
	require.NotEqual(t, "0", phase(t, got.out, "healthy")[3], "by Redis")
	for _, state := range []string{"stopped", "killed", "slow"} {
		require.NotEqual(t, "0", phase(t, got.out, state)[4], "without Redis, which is %s", state)
	}
	require.Empty(t, filesIn(t, directory))
}

// A drill that is interrupted prints what there is.
func TestDrillInterrupted(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	got := interrupted(t, regexp.MustCompile(`\n +3 +stopped `), "drill", "--redis", "redis://"+redis.Addr(), "--phase", "2s", "--timeout", "100ms")
	requireDrill(t, "local", got)
	require.Contains(t, got.out, "\nstopped, ")
	require.NotContains(t, got.out, "killed")
	requireForgotten(t, redis)
}

// A Redis that decides nothing need not be broken.
func TestDrillDecidesNothing(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	refuse(redis, "NOPERM no scripts for you")
	got := command(t.Context(), nil, "drill", "--redis", "redis://"+redis.Addr(), "--phase", "400ms")
	require.Equal(t, 1, got.status)
	require.Equal(t, "ration: before anything was broken, Redis did not decide: limiter \"drill\": redis unavailable: fault of configuration: NOPERM no scripts for you\n", got.err)
}

func TestDrillWithoutServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	got := command(t.Context(), nil, "drill")
	require.Equal(t, ended{1, "", "ration: drill needs redis-server in PATH, or --redis URL\n"}, got)
}

func TestJudgeDrill(t *testing.T) {
	t.Parallel()
	bounds := []drill.Bound{{Status: drill.Held}, {Status: drill.NotJudged}}
	require.NoError(t, judgeDrill(bounds))
	require.Equal(t, "The bound held.", verdict(bounds))
	bounds = append(bounds, drill.Bound{Status: drill.Held})
	require.Equal(t, "All 2 bounds held.", verdict(bounds))
	bounds = append(bounds, drill.Bound{Status: drill.Broken})
	require.ErrorIs(t, judgeDrill(bounds), errBroken)
	require.EqualError(t, judgeDrill(bounds), "the outage broke bounds: 1 of 3")
	require.Equal(t, "1 of the 3 bounds did not hold.", verdict(bounds))
}

func TestDrillRemarks(t *testing.T) {
	t.Parallel()
	require.Empty(t, drillRemarks(drill.Run{}, []drill.Bound{{Status: drill.Held}}))
	why := drill.Bound{Status: drill.NotJudged, Why: "there is too little"}
	require.Equal(t, []string{"\nNot judged where there is too little."}, drillRemarks(drill.Run{}, []drill.Bound{why, why}))
	for want, r := range map[string]drill.Run{
		"1 request could not be offered":                      {Late: 1},
		"2 requests got no decision, the last because: unexp": {Errors: 2, LastError: io.ErrUnexpectedEOF},
		"The key could not be deleted":                        {Leftover: io.ErrUnexpectedEOF},
		"busy with other things at times, for 20ms":           {Stalls: []drill.Stall{{From: 0, Until: 20 * time.Millisecond}}},
	} {
		remarks := drillRemarks(r, nil)
		require.Len(t, remarks, 1)
		require.Contains(t, remarks[0], want)
	}
}
