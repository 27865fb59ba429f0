package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The requests of testdata/access.log, by hand, under a bucket of 5 that gets a token back every 2 s:
//
//   - 198.51.100.7 asks 9 times in one second, for which there are 5 tokens, and 2 s later twice, for which there is 1;
//   - 192.0.2.10 asks once a second, 12 times: the tokens left fall by a half each time, from 4 at the first to 0 at the
//     ninth, so that from there on every second time is too early, the tenth and the twelfth;
//   - 2001:db8::bad asks 2, 2 and 3 times in three successive seconds: 3, 1½ and 2-3 tokens are left;
//   - the others ask 4 times and twice, for which the 5 tokens are enough.
const smallReport = `testdata/access.log: 36 requests, by ip,
  from 2026-03-14 09:26:50 to 2026-03-14 09:27:21 UTC
1 malformed line left out: 30
  line 30: user agent has no closing quote

token-bucket 1/2s burst 5: 28 admitted, 8 denied
  denied from 2026-03-14 09:26:54 to 2026-03-14 09:27:01 UTC,
  most in the minute of 2026-03-14 09:26: 7
  3 of 5 keys were denied; the 2 denied most:

key            denied          first denial           last denial
─────────────────────────────────────────────────────────────────
198.51.100.7        5   2026-03-14 09:26:54   2026-03-14 09:26:56
192.0.2.10          2   2026-03-14 09:26:59   2026-03-14 09:27:01

fixed-window 12/1m: 36 admitted, 0 denied
`

func TestReplayReport(t *testing.T) {
	t.Parallel()
	got := command(t.Context(), nil, "replay", "testdata/access.log", "--top", "2",
		"--plan", "token-bucket 1/2s burst 5", "--plan", "fixed-window 12/1m")
	require.Equal(t, ended{0, smallReport, ""}, got)
	requireColumns(t, 80, got.out)
}

func TestReplayJSON(t *testing.T) {
	t.Parallel()
	got := command(t.Context(), nil, "replay", "testdata/access.log", "--json",
		"--plan", "token-bucket   1/2s burst 5", "--plan", "fixed-window 12/1m")
	require.Zero(t, got.status)
	require.Equal(t, "1 malformed line left out: 30\n  line 30: user agent has no closing quote\n", got.err)
	require.Equal(t, `[
  {
    "plan": "token-bucket 1/2s burst 5",
    "admitted": 28,
    "denied": 8,
    "malformed": 1,
    "top": [
      {
        "key": "198.51.100.7",
        "denied": 5
      },
      {
        "key": "192.0.2.10",
        "denied": 2
      },
      {
        "key": "2001:db8::bad",
        "denied": 1
      }
    ]
  },
  {
    "plan": "fixed-window 12/1m",
    "admitted": 36,
    "denied": 0,
    "malformed": 1,
    "top": []
  }
]
`, got.out)
}

// replayed decodes the outcome of one plan.
func replayed(t *testing.T, got ended) planJSON {
	t.Helper()
	require.Zero(t, got.status, got.err)
	var plans []planJSON
	require.NoError(t, json.Unmarshal([]byte(got.out), &plans))
	require.Len(t, plans, 1)
	return plans[0]
}

func TestReplayBy(t *testing.T) {
	t.Parallel()
	for by, want := range map[string]planJSON{
		// /search 12 times whatever its query, /login 7 times, no other path more than twice.
		"path": {Admitted: 21, Denied: 15, Top: []keyJSON{{"/search", 10}, {"/login", 5}}},
		// 18 by curl, 12 by the bot, 4 by the browser of which the last comes 31 s after the first, 2 that name none.
		"user-agent": {Admitted: 9, Denied: 27, Top: []keyJSON{
			{"curl/8.5.0", 16},
			{"ExampleBot/1.0 (+https://example.com/bot)", 10},
			{"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", 1},
		}},
		// GET 27 times, the last in a new window, POST 7 times, 2 without a method.
		"method": {Admitted: 7, Denied: 29, Top: []keyJSON{{"GET", 24}, {"POST", 5}}},
		// 12, 11, 7 and 4 times, the last in a new window, and 2.
		"ip": {Admitted: 11, Denied: 25, Top: []keyJSON{
			{"192.0.2.10", 10}, {"198.51.100.7", 9}, {"2001:db8::bad", 5}, {"2001:db8::5", 1},
		}},
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			got := replayed(t, command(t.Context(), nil, "replay", "testdata/access.log", "--json", "--by", by,
				"--plan", "fixed-window 2/30s"))
			want.Plan, want.Malformed = "fixed-window 2/30s", 1
			require.Equal(t, want, got)
		})
	}
}

// line is a request in the log at a time, of the 14th of March 2026.
func line(host, clock, request string) string {
	return host + " - - [14/Mar/2026:" + clock + `] "` + request + `" 200 1` + "\n"
}

func TestReplayStandardInput(t *testing.T) {
	t.Parallel()
	const plan = "fixed-window 1/1m"
	for _, c := range []struct {
		name, by, log string
		want          planJSON
	}{
		{
			"by time across time zones, not by line",
			"ip",
			// In UTC 08:30:59, 08:30:00, 08:31:00 and 08:31:59: the second and the third are admitted.
			line("a", "09:30:59 +0100", "-") + line("a", "08:30:00 +0000", "-") +
				line("a", "03:31:00 -0500", "-") + line("a", "14:01:59 +0530", "-"),
			planJSON{Admitted: 2, Denied: 2, Top: []keyJSON{{"a", 2}}},
		},
		{
			"ties in the order of the keys",
			"ip",
			strings.Repeat(line("b", "09:30:00 +0000", "-"), 2) + strings.Repeat(line("a", "09:30:00 +0000", "-"), 2) +
				strings.Repeat(line("c", "09:30:00 +0000", "-"), 3),
			planJSON{Admitted: 3, Denied: 4, Top: []keyJSON{{"c", 2}, {"a", 1}, {"b", 1}}},
		},
		{
			"malformed lines, empty lines, CRLF, no line end",
			"ip",
			"\n?\r\n\r\n" + strings.ReplaceAll(line("a", "09:30:00 +0000", "-"), "\n", "\r\n") +
				"?\n" + strings.TrimSuffix(line("a", "09:30:01 +0000", "-"), "\n"),
			planJSON{Admitted: 1, Denied: 1, Malformed: 2, Top: []keyJSON{{"a", 1}}},
		},
		{
			"keys that are no usual text",
			"path",
			strings.Repeat(line("a", "09:30:00 +0000", "GET /{a}:%7B HTTP/1.1"), 2) +
				strings.Repeat(line("a", "09:30:00 +0000", "GET /"+strings.Repeat("x", 2000)+" HTTP/1.1"), 3) +
				strings.Repeat(line("a", "09:30:00 +0000", ""), 2),
			planJSON{Admitted: 3, Denied: 4, Top: []keyJSON{{"/" + strings.Repeat("x", 2000), 2}, {"", 1}, {"/{a}:%7B", 1}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.Plan = plan
			args := []string{"replay", "-", "--json", "--by", c.by, "--plan", plan}
			require.Equal(t, c.want, replayed(t, command(t.Context(), strings.NewReader(c.log), args...)), "plain")

			var compressed bytes.Buffer
			w := gzip.NewWriter(&compressed)
			_, err := w.Write([]byte(c.log))
			require.NoError(t, err)
			require.NoError(t, w.Close())
			require.Equal(t, c.want, replayed(t, command(t.Context(), &compressed, args...)), "gzip")
		})
	}
}

// Whatever a client put into the log, a terminal is not made to obey it.
func TestReplayShowsNoControls(t *testing.T) {
	t.Parallel()
	log := strings.Repeat(line("a", "09:30:00 +0000", "GET /\x1b[31m\xff\u202e HTTP/1.1"), 2)
	got := command(t.Context(), strings.NewReader(log), "replay", "-", "--by", "path", "--plan", "fixed-window 1/1m")
	require.Zero(t, got.status)
	require.Contains(t, got.out, `"/\x1b[31m\xff\u202e"        1`)
}

func TestReplayNothingUnderstood(t *testing.T) {
	t.Parallel()
	for log, want := range map[string]string{
		"":         "ration: standard input: the log is empty\n",
		"\n\n":     "ration: standard input: the log is empty\n",
		"\na\nb\n": "ration: standard input: no line is in the common or the combined format; line 2: host is missing\n",
		"\x1f\x8b": "ration: standard input: gzip: unexpected EOF\n",
	} {
		got := command(t.Context(), strings.NewReader(log), "replay", "-", "--json", "--plan", "fixed-window 1/1m")
		require.Equal(t, ended{1, "", want}, got, "%q", log)
	}
}

func TestReplayInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := command(ctx, nil, "replay", "testdata/access.log", "--plan", "fixed-window 1/1m")
	require.Equal(t, ended{1, "", "ration: interrupted\n"}, got)
}

// The figures of a real log of 10,000 lines, which is not in the repository, are known from outside.
func TestReplayRealLog(t *testing.T) {
	t.Parallel()
	log := os.Getenv("RATION_ACCESS_LOG")
	if log == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("RATION_ACCESS_LOG names no log: in CI it must")
		}
		t.Log("LEFT OUT: set RATION_ACCESS_LOG to the log of 10,000 lines to check replay against known figures")
		t.Skip("RATION_ACCESS_LOG is not set")
	}
	bucket := replayed(t, command(t.Context(), nil, "replay", log, "--json", "--top", "1", "--plan", "token-bucket 1/2s burst 5"))
	require.Equal(t, planJSON{
		Plan:      "token-bucket 1/2s burst 5",
		Admitted:  9586,
		Denied:    413,
		Malformed: 1,
		Top:       []keyJSON{{"198.18.0.97", 134}},
	}, bucket)
	window := replayed(t, command(t.Context(), nil, "replay", log, "--json", "--top", "0", "--plan", "fixed-window 60/2h"))
	require.Equal(t, planJSON{
		Plan: "fixed-window 60/2h", Admitted: 9771, Denied: 228, Malformed: 1, Top: []keyJSON{},
	}, window)
	for plan, admitted := range map[string]int{
		"sliding-log 60/2h": 9732, "sliding-window 60/2h": 9701, "gcra 1/2s burst 5": 9586,
	} {
		got := replayed(t, command(t.Context(), nil, "replay", log, "--json", "--top", "0", "--plan", plan))
		require.Equal(t, planJSON{
			Plan: plan, Admitted: admitted, Denied: 9999 - admitted, Malformed: 1, Top: []keyJSON{},
		}, got)
	}
	both := replayed(t, command(t.Context(), nil, "replay", log, "--json", "--top", "0", "--all",
		"--plan", "token-bucket 1/2s burst 5", "--plan", "fixed-window 60/2h"))
	require.Equal(t, planJSON{
		Plan: "token-bucket 1/2s burst 5 + fixed-window 60/2h", Admitted: 9572, Denied: 427, Malformed: 1, Top: []keyJSON{},
	}, both)
}

// Together, what one plan denies is charged to none: the window is left to those that the bucket lets through.
func TestReplayAll(t *testing.T) {
	t.Parallel()
	log := strings.Repeat(line("a", "09:30:00 +0000", "-"), 5) + strings.Repeat(line("a", "09:30:10 +0000", "-"), 3) +
		strings.Repeat(line("b", "09:30:00 +0000", "-"), 1)
	plans := []string{"--plan", "token-bucket 1/10s burst 2", "--plan", "fixed-window 4/1m"}
	together := replayed(t, command(t.Context(), strings.NewReader(log), append([]string{"replay", "-", "--json", "--all"}, plans...)...))
	require.Equal(t, planJSON{
		Plan: "token-bucket 1/10s burst 2 + fixed-window 4/1m", Admitted: 4, Denied: 5, Top: []keyJSON{{"a", 5}},
	}, together)
	named := replayed(t, command(t.Context(), strings.NewReader(log), "replay", "-", "--json", "--plan",
		"rate: token-bucket 1/10s burst 2 + minute: fixed-window 4/1m"))
	together.Plan = "rate: token-bucket 1/10s burst 2 + minute: fixed-window 4/1m"
	require.Equal(t, together, named)

	got := command(t.Context(), strings.NewReader(log), append([]string{"replay", "-", "--all"}, plans...)...)
	require.Zero(t, got.status)
	require.Contains(t, got.out, "token-bucket 1/10s burst 2 + fixed-window 4/1m: 4 admitted, 5 denied\n")
	got = command(t.Context(), strings.NewReader(log), "replay", "-", "--all", "--plan", "fixed-window 5/15m restart-on-deny")
	require.Equal(t, ended{1, "", "ration: --all: multi-plan: [0].Plan.RestartOnDeny cannot be in a MultiPlan\n"}, got)
	got = command(t.Context(), strings.NewReader(log), "replay", "-", "--all", "--plan", "a: gcra 1/s burst 1", "--plan", "gcra 1/s burst 1")
	require.Equal(t, ended{1, "", "ration: --all: --plan \"a: gcra 1/s burst 1\" is several plans already, all or nothing: give it alone\n"}, got)
	alone := replayed(t, command(t.Context(), strings.NewReader(log), "replay", "-", "--json", "--all", "--plan",
		"rate: token-bucket 1/10s burst 2 + minute: fixed-window 4/1m"))
	require.Equal(t, 4, alone.Admitted)
	got = command(t.Context(), strings.NewReader(log), "replay", "-", "--plan", "a: gcra 1/s burst 1 per-tag")
	require.Equal(t, ended{1, "", "ration: --plan \"a: gcra 1/s burst 1 per-tag\": a is per-tag, and the keys of a log have no hash tags\n"}, got)
}

// A log without end is left when the command is interrupted.
func TestReplayOfEndlessLogInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	got := command(ctx, endless("x", cancel), "replay", "-", "--plan", "fixed-window 1/1m")
	require.Equal(t, ended{1, "", "ration: interrupted\n"}, got)
}

// endless is a text without end, of which some is read before the command is interrupted.
func endless(text string, interrupt func()) io.Reader {
	reads := 0
	return readerFunc(func(p []byte) (int, error) {
		reads++
		if reads == 100 {
			interrupt()
		}
		return copy(p, strings.Repeat(text, len(p))), nil
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
