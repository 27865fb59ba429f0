package simulate_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration/cmd/ration/internal/simulate"
)

func TestRead(t *testing.T) {
	t.Parallel()
	const longest = 1<<16 - 1
	const us = time.Microsecond
	for _, c := range []struct {
		name, text string
		want       simulate.Trace
	}{
		{"seconds", "0\n1\n20.5\n", simulate.Trace{{0, 1}, {time.Second, 1}, {20500 * time.Millisecond, 1}}},
		{"exact", "0.07\n0.29\n0.57\n1.000001", simulate.Trace{{70_000 * us, 1}, {290_000 * us, 1}, {570_000 * us, 1}, {1_000_001 * us, 1}}},
		{"zeros", "00.10\n.2\n3.\n4.00000000\n", simulate.Trace{{100_000 * us, 1}, {200_000 * us, 1}, {3 * time.Second, 1}, {4 * time.Second, 1}}},
		{"costs", "1 5\n2\t 0\n3 007 \n", simulate.Trace{{time.Second, 5}, {2 * time.Second, 0}, {3 * time.Second, 7}}},
		{"left out", "\n# seconds cost\n \t\n  #1\n1\n", simulate.Trace{{time.Second, 1}}},
		{"CRLF", "1\r\n\r\n#\r\n2 3\r\n", simulate.Trace{{time.Second, 1}, {2 * time.Second, 3}}},
		{"in any order", "2 1\n1 5\n2 2\n0 9\n2 3\n1 4\n", simulate.Trace{
			{0, 9}, {time.Second, 5}, {time.Second, 4}, {2 * time.Second, 1}, {2 * time.Second, 2}, {2 * time.Second, 3},
		}},
		{"latest", "2000000000", simulate.Trace{{2_000_000_000 * time.Second, 1}}},
		{"greatest", "0 4503599627370495\n0 1", simulate.Trace{{0, 1<<52 - 1}, {0, 1}}},
		{"longest", "0\n#" + strings.Repeat("x", longest-1) + "\n1", simulate.Trace{{0, 1}, {time.Second, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := simulate.Read(strings.NewReader(c.text))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestReadMost(t *testing.T) {
	t.Parallel()
	trace, err := simulate.Read(strings.NewReader(strings.Repeat("1\n", 1_000_000)))
	require.NoError(t, err)
	require.Len(t, trace, 1_000_000)
	_, err = simulate.Read(strings.NewReader(strings.Repeat("1\n", 1_000_001)))
	require.EqualError(t, err, "line 1000001: there are more than 1000000 arrivals")
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"", "the trace is empty"},
		{"\n# nothing\n", "the trace is empty"},
		{"0\n\nx", `line 3: seconds "x": want a decimal number of 0 or more, such as 0.99`},
		{"-1", `line 1: seconds "-1": want a decimal number of 0 or more, such as 0.99`},
		{"+1", `line 1: seconds "+1": want a decimal number`},
		{"1e3", `line 1: seconds "1e3": want a decimal number`},
		{"NaN", `line 1: seconds "NaN": want a decimal number`},
		{"0x1", `line 1: seconds "0x1": want a decimal number`},
		{"1_000", `line 1: seconds "1_000": want a decimal number`},
		{"1,5", `line 1: seconds "1,5": want a decimal number`},
		{"1.2.3", `line 1: seconds "1.2.3": want a decimal number`},
		{".", `line 1: seconds ".": want a decimal number`},
		{"٣", `line 1: seconds "٣": want a decimal number`},
		{"0.0000001", `line 1: seconds "0.0000001": want whole microseconds, so at most 6 decimals`},
		{"2000000000.000001", `line 1: seconds "2000000000.000001": want at most 2000000000`},
		{strings.Repeat("9", 50), `line 1: seconds "` + strings.Repeat("9", 40) + `": want at most 2000000000`},
		{"0 x", `line 1: cost "x": want a whole number`},
		{"0 1.5", `line 1: cost "1.5": want a whole number`},
		{"0 -1", `line 1: cost "-1": want a whole number`},
		{"0 4503599627370497", `line 1: cost "4503599627370497": want at most 4503599627370496`},
		{"0 99999999999999999999", `line 1: cost "99999999999999999999": want at most 4503599627370496`},
		{"0 4503599627370496\n0", "line 2: the costs add up to more than 4503599627370496"},
		{"0 1 x", `line 1: "x" is too much: want seconds and a cost`},
		{"0 # x", `line 1: cost "#": want a whole number`},
		{"0\n" + strings.Repeat("x", 1<<16), "line 2: it is longer than 65535 bytes"},
	} {
		t.Run(c.want, func(t *testing.T) {
			t.Parallel()
			_, err := simulate.Read(strings.NewReader(c.text))
			require.ErrorContains(t, err, c.want)
		})
	}
	broken := errors.New("broken")
	_, err := simulate.Read(io.MultiReader(strings.NewReader("0\n"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
}

// FuzzRead holds the reader to what Seconds writes.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"0", "0.99 3", "1.000001\n0.5\n#\n", "2000000000 4503599627370496", ".5 0\r\n5."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := simulate.Read(strings.NewReader(text))
		if err != nil {
			require.Empty(t, trace)
			return
		}
		require.NotEmpty(t, trace)
		require.LessOrEqual(t, trace.Units(), int64(simulate.MaxUnits))
		require.IsNonDecreasing(t, times(trace))
		var again strings.Builder
		for _, a := range trace {
			fmt.Fprintln(&again, simulate.Seconds(a.At), a.Cost)
		}
		got, err := simulate.Read(strings.NewReader(again.String()))
		require.NoError(t, err)
		require.Equal(t, trace, got)
	})
}
