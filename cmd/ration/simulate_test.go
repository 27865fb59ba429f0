package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const smallSimulation = `boundary: 350 arrivals, from 0 to 2.98 s

plan                          admitted   denied   peak 100 ms   peak 1 s
────────────────────────────────────────────────────────────────────────
fixed-window 100/1s                250      100           100        195
token-bucket 100/s burst 10        169      181            19         69

peak: the most units admitted in any span of that length
`

func TestSimulateReport(t *testing.T) {
	t.Parallel()
	got := command(t.Context(), nil, "simulate", "--plan", "fixed-window 100/1s", "--plan", "token-bucket  100/s burst 10")
	require.Equal(t, ended{0, smallSimulation, ""}, got)
}

// What was admitted at each instant is told in as many tables as it takes to be no wider than a terminal.
func TestSimulateReportByInstant(t *testing.T) {
	t.Parallel()
	got := command(t.Context(), strings.NewReader("1\n0.5 70\n10 99999999999\n2\n3\n4\n5\n6\n7 101\n100.000001 2\n"),
		"simulate", "--trace", "-", "--plan", "fixed-window 100/1s", "--plan", "fixed-window 2/1s aligned")
	require.Equal(t, ended{0, `standard input: 10 arrivals of 100000000178 units, from 0.5 to 100.000001 s

plan                        admitted         denied   peak 100 ms   peak 1 s
────────────────────────────────────────────────────────────────────────────
fixed-window 100/1s               78   100000000100            70         71
fixed-window 2/1s aligned          8   100000000170             2          2

peak: the most units admitted in any span of that length

admitted at                 0.5 s   1 s   2 s   3 s   4 s   5 s   6 s   7 s
───────────────────────────────────────────────────────────────────────────
(arrived)                      70     1     1     1     1     1     1   101
fixed-window 100/1s            70     1     1     1     1     1     1     0
fixed-window 2/1s aligned       0     1     1     1     1     1     1     0

admitted at                        10 s   100.000001 s
──────────────────────────────────────────────────────
(arrived)                   99999999999              2
fixed-window 100/1s                   0              2
fixed-window 2/1s aligned             0              2
`, ""}, got)
	requireColumns(t, 80, got.out)
}

// simulated decodes the outcomes of the plans.
func simulated(t *testing.T, got ended) []simulatedJSON {
	t.Helper()
	require.Zero(t, got.status, got.err)
	require.Empty(t, got.err)
	var plans []simulatedJSON
	require.NoError(t, json.Unmarshal([]byte(got.out), &plans))
	return plans
}

// The figures are known from outside. Second 0 is an arrival, so windows that open with a grant and windows of the clock are
// the same here.
func TestSimulateBoundary(t *testing.T) {
	t.Parallel()
	none := []instantJSON{} // for there are many
	want := []simulatedJSON{
		{Plan: "fixed-window 100/1s", Admitted: 250, Denied: 100, Peak100ms: 100, Peak1s: 195, ByInstant: none},
		{Plan: "sliding-window 100/1s", Admitted: 204, Denied: 146, Peak100ms: 57, Peak1s: 104, ByInstant: none},
		{Plan: "sliding-log 100/1s", Admitted: 200, Denied: 150, Peak100ms: 57, Peak1s: 100, ByInstant: none},
		{Plan: "token-bucket 100/s burst 100", Admitted: 259, Denied: 91, Peak100ms: 105, Peak1s: 159, ByInstant: none},
		{Plan: "token-bucket 100/s burst 10", Admitted: 169, Denied: 181, Peak100ms: 19, Peak1s: 69, ByInstant: none},
		{Plan: "gcra 100/s burst 100", Admitted: 259, Denied: 91, Peak100ms: 105, Peak1s: 159, ByInstant: none},
		{Plan: "gcra 100/s burst 10", Admitted: 169, Denied: 181, Peak100ms: 19, Peak1s: 69, ByInstant: none},
	}
	require.Equal(t, want, simulated(t, command(t.Context(), nil, "simulate", "--json")))
	got := command(t.Context(), nil, "simulate")
	require.Zero(t, got.status, got.err)
	requireColumns(t, 80, got.out)

	aligned := want[0]
	aligned.Plan += " aligned"
	require.Equal(t, []simulatedJSON{aligned}, simulated(t, command(t.Context(), nil, "simulate", "--json", "--plan", aligned.Plan)))
}

func TestSimulateTwoBursts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		plan          string
		first, second int64
	}{
		{"fixed-window 100/1s", 100, 0},
		{"fixed-window 100/1s aligned", 100, 100},
		{"sliding-log 100/1s", 100, 0},
		{"token-bucket 100/s burst 20", 20, 2},
		{"gcra 100/s burst 20", 20, 2},
	} {
		t.Run(c.plan, func(t *testing.T) {
			t.Parallel()
			both := c.first + c.second
			require.Equal(t, []simulatedJSON{{
				Plan: c.plan, Admitted: both, Denied: 200 - both, Peak100ms: both, Peak1s: both,
				ByInstant: []instantJSON{{"0.99", c.first}, {"1.01", c.second}},
			}}, simulated(t, command(t.Context(), nil, "simulate", "--trace", "twobursts", "--json", "--plan", c.plan)))
		})
	}
}

func TestSimulateJSON(t *testing.T) {
	t.Parallel()
	const plan = "fixed-window 2/1m"
	trace := "0.99\n1.000001 2\n0 1\n"
	got := command(t.Context(), strings.NewReader(trace), "simulate", "--trace", "-", "--json", "--plan", plan, "--plan", plan)
	const want = `  {
    "plan": "fixed-window 2/1m",
    "admitted": 2,
    "denied": 2,
    "peak_100ms": 1,
    "peak_1s": 2,
    "by_instant": [
      {
        "seconds": 0,
        "admitted": 1
      },
      {
        "seconds": 0.99,
        "admitted": 1
      },
      {
        "seconds": 1.000001,
        "admitted": 0
      }
    ]
  }`
	require.Equal(t, ended{0, "[\n" + want + ",\n" + want + "\n]\n", ""}, got)

	got = command(t.Context(), nil, "simulate", "--json", "--plan", "fixed-window 100/1s")
	require.Equal(t, ended{0, `[
  {
    "plan": "fixed-window 100/1s",
    "admitted": 250,
    "denied": 100,
    "peak_100ms": 100,
    "peak_1s": 195,
    "by_instant": []
  }
]
`, ""}, got)
}

// A file may be called like a trace with a name, and have any other.
func TestSimulateFile(t *testing.T) {
	directory := t.TempDir()
	t.Chdir(directory)
	for _, path := range []string{"./boundary", filepath.Join(directory, "twobursts"), "trace.txt"} {
		require.NoError(t, os.WriteFile(path, []byte("# seconds\n5\n"), 0o600))
		got := command(t.Context(), nil, "simulate", "--trace", path, "--plan", "fixed-window 100/1s")
		require.Zero(t, got.status, got.err)
		require.True(t, strings.HasPrefix(got.out, path+": 1 arrival, from 5 to 5 s\n"), got.out)
	}
	require.NoError(t, os.WriteFile("trace.txt", []byte("1\n\n1 x\n"), 0o600))
	got := command(t.Context(), nil, "simulate", "--trace", "trace.txt", "--plan", "fixed-window 100/1s")
	require.Equal(t, ended{1, "", "ration: trace.txt: line 3: cost \"x\": want a whole number\n"}, got)

	got = command(t.Context(), strings.NewReader(""), "simulate", "--trace", "-", "--plan", "fixed-window 100/1s")
	require.Equal(t, ended{1, "", "ration: standard input: the trace is empty\n"}, got)
}

func TestSimulateInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := command(ctx, nil, "simulate")
	require.Equal(t, ended{1, "", "ration: interrupted\n"}, got)
}

// A trace without end is left when the command is interrupted.
func TestSimulateOfEndlessTraceInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	got := command(ctx, endless("\n", cancel), "simulate", "--trace", "-", "--plan", "fixed-window 1/1m")
	require.Equal(t, ended{1, "", "ration: interrupted\n"}, got)
}
