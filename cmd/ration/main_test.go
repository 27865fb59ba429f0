package main

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// ended is how a command ended.
type ended struct {
	status   int
	out, err string
}

// command runs the command as a shell would, without a terminal.
func command(ctx context.Context, stdin io.Reader, args ...string) ended {
	var out, errOut bytes.Buffer
	status := run(ctx, args, stdin, &out, &errOut)
	return ended{status, out.String(), errOut.String()}
}

// interrupted runs the command until it has printed something, and then as a shell does after Ctrl-C.
func interrupted(t *testing.T, when *regexp.Regexp, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	var seen bytes.Buffer
	read := make(chan error, 1)
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := reader.Read(buffer)
			seen.Write(buffer[:n])
			if when.Match(seen.Bytes()) {
				cancel()
			}
			if err != nil {
				read <- err
				return
			}
		}
	}()
	var errOut bytes.Buffer
	status := run(ctx, args, nil, writer, &errOut)
	require.NoError(t, writer.Close())
	require.ErrorIs(t, <-read, io.EOF)
	return ended{status, seen.String(), errOut.String()}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	const log = "testdata/access.log"
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no such command", []string{"nothing"}, "ration: unknown command \"nothing\" for \"ration\"\n"},
		{"no such flag", []string{"demo", "--nothing"}, "ration: unknown flag: --nothing (see ration demo --help)\n"},
		{"a word of a plan", []string{"demo", "--plan", "token-bucket x/s burst 5"}, "" +
			"ration: --plan: want a whole number of units\n" +
			"  token-bucket x/s burst 5\n" +
			"               ^\n"},
		{"a word of the second plan", []string{"replay", log, "--plan", "fixed-window 1/1m", "--plan", "fixed-window 60/2w"}, "" +
			"ration: --plan: want a span of time, such as s, 10m, 1.5h or 2d (m is a minute)\n" +
			"  fixed-window 60/2w\n" +
			"                  ^^\n"},
		{"the end of a plan", []string{"replay", log, "--plan", "token-bucket 1/s"}, "" +
			"ration: --plan: want burst and a number of units\n" +
			"  token-bucket 1/s\n" +
			"                  ^\n"},
		{
			"a plan that cannot be",
			[]string{"demo", "--plan", "token-bucket 1/s burst 0"},
			"ration: --plan \"token-bucket 1/s burst 0\": token-bucket: Burst is 0: must be at least 1\n",
		},
		{"no instances", []string{"demo", "--instances", "0"}, "ration: 0 instances: want 1 to 1000\n"},
		{"no load", []string{"demo", "--load", "0"}, "ration: a load of 0: want a number above 0\n"},
		{"a load that is no number", []string{"demo", "--load", "NaN"}, "ration: a load of NaN: want a number above 0\n"},
		{"no duration", []string{"demo", "--duration", "0"}, "ration: a duration of 0s: want more than 0, at most 1h0m0s\n"},
		{"no timeout", []string{"demo", "--timeout", "-1s"}, "ration: a timeout of -1s: want more than 0\n"},
		{
			"a load too low",
			[]string{"demo", "--plan", "fixed-window 1/1h"},
			"ration: 3 times fixed-window 1/1h is not one request in 5s: raise the load or the duration\n",
		},
		{
			"a load too high",
			[]string{"demo", "--load", "1e6"},
			"ration: 1e+06 times token-bucket 100/s burst 20 is 500000000 requests in 5s: at most 20000, so lower the load or the duration\n",
		},
		{"no log", []string{"replay"}, "ration: no log to read: name one, or - for the standard input\n"},
		{"two logs", []string{"replay", log, log}, "ration: 2 logs to read: name one, or put them together on the standard input\n"},
		{
			"a log that is not there",
			[]string{"replay", "testdata/nothing", "--plan", "fixed-window 1/1m"},
			"ration: testdata/nothing: no such file or directory\n",
		},
		{
			"no plan",
			[]string{"replay", log},
			"ration: no plan to try: say one, such as --plan \"token-bucket 1/2s burst 5\"\n",
		},
		{
			"an unknown choice",
			[]string{"replay", log, "--by", "IP", "--plan", "fixed-window 1/1m"},
			"ration: --by \"IP\": want ip, path, user-agent or method\n",
		},
		{
			"a negative top",
			[]string{"replay", log, "--top", "-1", "--plan", "fixed-window 1/1m"},
			"ration: --top -1: want 0 or more\n",
		},
		{"no trace", []string{"simulate", "--trace", ""}, "ration: no trace to read: name one, or - for the standard input\n"},
		{
			"a trace that is not there",
			[]string{"simulate", "--trace", "bursts"},
			"ration: bursts: no such file or directory; the traces with a name are boundary and twobursts\n",
		},
		{"a trace as an argument", []string{"simulate", "boundary"}, "ration: unknown command \"boundary\" for \"ration simulate\"\n"},
		{"a plan to simulate", []string{"simulate", "--plan", "fixed-window 60/2w"}, "" +
			"ration: --plan: want a span of time, such as s, 10m, 1.5h or 2d (m is a minute)\n" +
			"  fixed-window 60/2w\n" +
			"                  ^^\n"},
		{"no such policy", []string{"drill", "--policy", "half-open"}, "ration: --policy \"half-open\": want local, open or closed\n"},
		{"a drill of nobody", []string{"drill", "--instances", "0"}, "ration: 0 instances: want 1 to 100\n"},
		{"a drill without load", []string{"drill", "--load", "-1"}, "ration: a load of -1: want a number above 0\n"},
		{"a drill without a timeout", []string{"drill", "--timeout", "0"}, "ration: a timeout of 0s: want more than 0\n"},
		{"a phase too short", []string{"drill", "--phase", "99ms"}, "ration: a phase of 99ms: want 100ms to 10m0s\n"},
		{
			"a part of a millisecond",
			[]string{"drill", "--latency", "1500us"},
			"ration: a latency of 1.5ms: want whole milliseconds, 1ms to 10s\n",
		},
		{
			"a drill of too little",
			[]string{"drill", "--plan", "fixed-window 1/1h"},
			"ration: 3 times fixed-window 1/1h is not one request in 27s: raise the load or the phase\n",
		},
		{
			"a drill of too much",
			[]string{"drill", "--load", "1000"},
			"ration: 1000 times token-bucket 100/s burst 20 is 2700000 requests in 27s: at most 1000000, so lower the load or the phase\n",
		},
		{
			"a drill of a socket",
			[]string{"drill", "--redis", "unix:///nothing"},
			"ration: drill breaks TCP connections, and not those to a socket: name Redis by redis://host:port\n",
		},
		{"a picture of a drill", []string{"drill", "--plot", "a.pdf"}, "ration: --plot a.pdf: want a file that ends in .svg or .png\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := command(t.Context(), strings.NewReader(""), c.args...)
			require.Equal(t, ended{1, "", c.want}, got)
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--help"}, {"demo", "--help"}, {"replay", "--help"}, {"simulate", "--help"}, {"drill", "--help"}} {
		got := command(t.Context(), nil, args...)
		require.Zero(t, got.status)
		require.Empty(t, got.err)
		require.Contains(t, got.out, "Usage:")
		requireColumns(t, 80, got.out)
	}
	got := command(t.Context(), nil, "--version")
	require.Zero(t, got.status)
	require.Regexp(t, `^ration \S+ go\S+\n$`, got.out)
}

// requireColumns fails if a line of a text is wider than a terminal.
func requireColumns(t *testing.T, columns int, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), columns, line)
	}
}
