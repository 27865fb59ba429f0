package main

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &printer{w: &out}
	p.table([][]string{
		{"peer", "1 caller", "µs"},
		{"some", "0.50", "1,234"},
		{"a longer one", "12.0", "–"},
	})
	require.NoError(t, p.err)
	require.Equal(t, `| peer         | 1 caller |    µs |
| ------------ | -------: | ----: |
| some         |     0.50 | 1,234 |
| a longer one |     12.0 |     – |
`, out.String())
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{
		0.004:   "0.00",
		1:       "1.00",
		9.994:   "9.99",
		9.996:   "10.0",
		99.94:   "99.9",
		99.96:   "100",
		1234.5:  "1,234",
		1234567: "1,234,567",
	} {
		require.Equal(t, want, number(f))
	}
	require.Equal(t, "–", number(math.NaN()))
	require.Equal(t, "–", grouped(math.NaN()))
	require.Equal(t, "1 entry", entries(1))
	require.Equal(t, "1,000 entries", entries(1000))
	require.Equal(t, "1 round", count(1, "round"))
	require.Equal(t, "5 rounds", count(5, "round"))
}

func TestAim(t *testing.T) {
	t.Parallel()
	require.Equal(t, "≤ 0.85", aim(0.85).against(0.85))
	require.Equal(t, "≤ 0.85, missed", aim(0.85).against(0.86))
	require.Equal(t, "≤ 0.85", aim(0.85).against(math.NaN()), "what is not known misses nothing")
	require.Empty(t, aim(0).against(1))
}

func TestReport(t *testing.T) {
	t.Parallel()
	both := []peer{{name: "one", about: "the first"}, {name: baseline, about: "the other"}}
	r := &report{
		when:     time.Date(2030, time.January, 2, 0, 0, 0, 0, time.UTC),
		machine:  "a machine",
		redis:    "Redis 1.2.3 in a place",
		command:  "a command",
		settings: settings{callers: []int{16}, rounds: 5, span: time.Second, manyKeys: 1000, parts: 20, storedKeys: 2000},
		peers:    both,
		far:      []throughput{{contest: contest{work: hotAllowed, peers: both}, figures: twoPeers("64 callers", 3, 1000)}},
		throughputs: []throughput{
			{
				contest: contest{work: hotDenied, peers: both}, leastDenied: 0.9979, figures: twoPeers("1 caller", 0.5, 20_000),
				cpu: [][]float64{{12.345}, {75}}, calls: [][]float64{{0.0213}, {math.NaN()}},
			},
			{
				contest: contest{work: manyAllowed, peers: []peer{{name: oneKey}, {name: baseline}}}, figures: twoPeers("16 callers", 2, 100_000),
				cpu: [][]float64{{1}, {2}}, calls: [][]float64{{1}, {1}},
			},
		},
		serverTimes: serverTimes{
			scripts: []script{{peer: peer{name: "one"}, allowed: 1.3, denied: 0.8}, {peer: peer{name: baseline}}},
			figures: figures{
				columns:   []string{"allowed", "denied"},
				multiples: [][]float64{{1.25, 0.81}, {1, 1}},
				base:      []float64{4.5, 3.3},
			},
		},
		logs: logs{
			lines: []logLine{
				{length: 1000, held: 1012.3, micros: []float64{5.2, 4, 12}, bytes: 111_000},
				{length: 10_000, held: 9990, micros: []float64{5.3, 4.1, math.NaN()}, bytes: 1_110_000},
			},
			base:  4.5,
			outs:  []logOut{{late: 1, median: 1001, most: 1234}, {median: 40, most: 60}, {expired: true, median: 500, most: 1900}},
			grant: logGrant{cost: 10_000, entries: 1, bytes: 136},
		},
		storages: []storage{{peer: peer{name: "one"}, bare: 115.4, named: 163, aim: 120}, {peer: peer{name: baseline}, bare: 163, named: 170}},
		memories: []memory{{allocs: 9.01, bytes: 312}, {allocs: 21, bytes: 695}},
	}
	var out bytes.Buffer
	require.NoError(t, r.write(&out))
	for _, part := range []string{
		"Date: 2 January 2030  \nMachine: a machine  \nServer: Redis 1.2.3 in a place  \nCommand: `a command`\n",
		"* one: the first\n* redis_rate: the other\n",
		"for 1s each",
		"median of 5 rounds",
		`at least 99.7 % of the requests were denied.

| peer                 | 1 caller |
| -------------------- | -------: |
| one                  |     0.50 |
| redis_rate           |     1.00 |
| redis_rate, a second |   20,000 |
`,
		"There are 1,000 keys.\n",
		"| Many keys in random order, all requests allowed | gcra, 1 key a call | redis_rate |       2.00 | ≥ 1.20 |\n",
		`
| peer       | 1 caller |
| ---------- | -------: |
| one        |    0.021 |
| redis_rate |        – |
`,
		`
| one        |    12.35 |
| redis_rate |    75.00 |
`,
		"### 1ms away, behind a toxiproxy: one key, all requests allowed\n",
		"20 times in each of 5 rounds",
		`
| script         | allowed |    aim | denied |            aim |
| -------------- | ------: | -----: | -----: | -------------: |
| one            |    1.25 | ≤ 1.30 |   0.81 | ≤ 0.80, missed |
| redis_rate     |    1.00 |        |   1.00 |                |
| redis_rate, µs |    4.50 |        |   3.30 |                |
`,
		`
| grants |  held | granted | denied | denied, costs differ |     bytes |               aim |
| ------ | ----: | ------: | -----: | -------------------: | --------: | ----------------: |
| 1,000  | 1,012 |    5.20 |   4.00 |                 12.0 |   111,000 | ≤ 110,000, missed |
| 10,000 | 9,990 |    5.30 |   4.10 |                    – | 1,110,000 |                   |
`,
		"of the first 10 calls that find a log of 10,000 grants out, the median and the longest of\n15 logs.",
		`
| out              | median |             aim | longest |
| ---------------- | -----: | --------------: | ------: |
| all but 1        |  1,001 | ≤ 1,000, missed |   1,234 |
| all              |   40.0 |         ≤ 1,000 |    60.0 |
| all, and expired |    500 |         ≤ 1,000 |   1,900 |
`,
		"A grant of 10,000 units is stored as 1 entry, in 136 bytes.\n",
		"for each of 2,000 keys",
		`
| plan       | own name |   aim | as stored |
| ---------- | -------: | ----: | --------: |
| one        |      115 | ≤ 120 |       163 |
| redis_rate |      163 |       |       170 |
`,
		`
| peer       | allocations | bytes |
| ---------- | ----------: | ----: |
| one        |           9 |   312 |
| redis_rate |          21 |   695 |
`,
	} {
		require.Contains(t, out.String(), part)
	}
}

// twoPeers are the figures of two peers, of which the second is the baseline.
func twoPeers(column string, m, base float64) figures {
	return figures{columns: []string{column}, multiples: [][]float64{{m}, {1}}, base: []float64{base}}
}

// A report that cannot be written is an error.
func TestPrinterKeepsTheError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	p := &printer{w: writerFunc(func([]byte) (int, error) { return 0, broken })}
	p.printf("one")
	p.printf("two")
	require.ErrorIs(t, p.err, broken)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
