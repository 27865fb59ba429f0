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
	require.Equal(t, "1 round", count(1, "round"))
	require.Equal(t, "5 rounds", count(5, "round"))
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := &report{
		when:     time.Date(2030, time.January, 2, 0, 0, 0, 0, time.UTC),
		machine:  "a machine",
		redis:    "Redis 1.2.3 in a place",
		command:  "a command",
		settings: settings{rounds: 5, span: time.Second, manyKeys: 1000},
		peers:    []peer{{name: "one", about: "the first"}, {name: baseline, about: "the other"}},
		throughputs: []throughput{
			{work: hotDenied, leastDenied: 0.9979, figures: twoPeers("1 caller", 0.5, 20_000)},
			{work: manyAllowed, figures: twoPeers("16 callers", 2, 100_000)},
		},
		serverTimes: twoPeers("allowed", 1.25, 4.5),
		memories:    []memory{{allocs: 9.01, bytes: 312}, {allocs: 21, bytes: 695}},
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
		`
| peer           | in Redis, allowed | allocations | bytes |
| -------------- | ----------------: | ----------: | ----: |
| one            |              1.25 |           9 |   312 |
| redis_rate     |              1.00 |          21 |   695 |
| redis_rate, µs |              4.50 |             |       |
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
