package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// A goroutine left behind fails the tests. A fleet runs this binary again, as its members.
func TestMain(m *testing.M) {
	if os.Getenv(memberVariable) != "" {
		if err := runMember(context.Background(), os.Stdin, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// embedded starts a Redis inside the test whose clock stands still.
func embedded(t *testing.T) (*miniredis.Miniredis, *redis.Options) {
	t.Helper()
	server := miniredis.RunT(t)
	server.SetTime(epoch)
	return server, &redis.Options{Addr: server.Addr()}
}

// epoch is where an embedded clock begins.
var epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// moveClock lets an embedded clock go on by a pause, at once. Only one goroutine may pause.
func moveClock(server *miniredis.Miniredis) func(context.Context, time.Duration) error {
	now := epoch
	return func(_ context.Context, d time.Duration) error {
		now = now.Add(d)
		server.SetTime(now)
		server.FastForward(d)
		return nil
	}
}

// shortest are settings with as little to do as can be.
func shortest() settings {
	return settings{
		rounds:     2,
		span:       time.Millisecond,
		callers:    []int{1, 3},
		manyKeys:   10,
		sample:     20,
		parts:      1,
		logLengths: []int{3, 6},
		storedKeys: 10,
		growth:     growth{callers: []int{1, 2}, keys: []int{1, 20}, limits: []int64{10, 100}},
	}
}

// A whole run, as short as can be: every peer answers in every work, the report is complete, and nothing stays behind.
func TestMeasure(t *testing.T) {
	t.Parallel()
	server, o := embedded(t)
	require.NoError(t, server.Set("bench:of-somebody-else", "1"))
	r, err := measure(t.Context(), &target{options: o, place: "inside the test", isTests: true, pause: moveClock(server)}, shortest(), io.Discard)
	require.NoError(t, err)
	require.Len(t, r.throughputs, 3)
	require.Len(t, r.memories, len(r.peers))
	for _, result := range r.throughputs {
		require.Equal(t, []string{"1 caller", "3 callers"}, result.columns)
		for i := range r.peers {
			for _, m := range result.multiples[i] {
				require.Positive(t, m, "%s, %s", result.work.title, r.peers[i].name)
			}
		}
	}
	var out bytes.Buffer
	require.NoError(t, r.write(&out))
	require.Contains(t, out.String(), "of unknown version inside the test")
	require.Equal(t, []string{"bench:of-somebody-else"}, server.Keys())
}

// What is measured elsewhere, and by a fleet, is measured on servers of the program's own.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server in PATH")
	}
	target, err := openTarget(t.Context(), "")
	require.NoError(t, err)
	defer target.stop()
	s := shortest()
	s.span = 5 * time.Millisecond
	b := newBenchmark(target, s, io.Discard)
	r := &report{settings: s, peers: b.peers}
	require.NoError(t, b.elsewhere(t.Context(), r))
	require.Len(t, r.far, 2)
	require.Len(t, r.onCluster, 2)
	require.Len(t, r.processes, 2)
	for _, all := range [][]throughput{r.far, r.onCluster, r.processes} {
		for _, result := range all {
			for i := range result.peers {
				for _, m := range result.multiples[i] {
					require.Positive(t, m, "%s, %s", result.work.title, result.peers[i].name)
				}
			}
		}
	}
	require.Less(t, r.far[0].base[0], 1/distance.Seconds(), "a lone caller of a Redis that is so far away")
	require.Equal(t, []string{"2 processes", "4 processes", "8 processes"}, r.processes[0].columns)
	require.NoError(t, b.cleanUp())
}

// A chart has a line for each peer whose figures are known.
func TestChart(t *testing.T) {
	t.Parallel()
	c := contest{work: hotAllowed, peers: []peer{{name: "one"}, {name: "unknown"}, {name: baseline}}, callers: []int{1, 16}}
	svg, err := drawChart(perSecond, []throughput{{contest: c, rates: [][]float64{{10_000, 90_000}, {math.NaN(), math.NaN()}, {9000, 40_000}}}},
		func(t *throughput) [][]float64 { return t.rates })
	require.NoError(t, err)
	for _, text := range []string{"<svg", hotAllowed.title, perSecond, ">one<", ">" + baseline + "<", ">16<"} {
		require.Contains(t, string(svg), text)
	}
	require.NotContains(t, string(svg), ">unknown<")
}

func TestParseArgs(t *testing.T) {
	t.Parallel()
	s, url, dir, err := parseArgs([]string{"-rounds", "7", "-for", "20ms", "-redis", "redis://host", "-write", ".."}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 7, s.rounds)
	require.Equal(t, 20*time.Millisecond, s.span)
	require.Equal(t, "redis://host", url)
	require.Equal(t, "..", dir)
	for _, args := range [][]string{
		{"-rounds", "0"},
		{"-for", "0s"},
		{"-for", "11s"},
		{"-for", "soon"},
		{"more"},
	} {
		_, _, _, err := parseArgs(args, io.Discard)
		require.Error(t, err, "%q", args)
	}
}

// No error about a Redis shows its password.
func TestOpenTargetRefuses(t *testing.T) {
	t.Parallel()
	_, err := openTarget(t.Context(), "redis://:secret@host:port")
	require.ErrorContains(t, err, "cannot be read")
	require.NotContains(t, err.Error(), "secret")
}
