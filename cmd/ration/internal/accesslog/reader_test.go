package accesslog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration/cmd/ration/internal/accesslog"
)

// entry makes a line by its host and its length.
func entry(host string, length int) string {
	const rest = ` - - [14/Mar/2026:09:26:53 +0000] "-" 200 1 "-" ""`
	return strings.TrimSuffix(host+rest, `"`) + strings.Repeat("x", max(length-len(host)-len(rest), 0)) + `"`
}

// readAll gives the host of each line by its number, or a ! where it is malformed.
func readAll(t *testing.T, r io.Reader) (hosts map[int]string, err error) {
	t.Helper()
	lines, err := accesslog.NewReader(r)
	if err != nil {
		return nil, err
	}
	hosts = make(map[int]string)
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return hosts, nil
		case err != nil:
			return hosts, err
		case line.Err != nil:
			hosts[line.Number] = "!"
		default:
			hosts[line.Number] = line.Entry.Host
		}
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	const longest = 1 << 20
	for _, c := range []struct {
		name, log string
		want      map[int]string
	}{
		{"nothing", "", map[int]string{}},
		{"empty lines only", "\n\r\n\n", map[int]string{}},
		{"lines", entry("a", 0) + "\n" + entry("b", 0) + "\n", map[int]string{1: "a", 2: "b"}},
		{"no line end at the end", entry("a", 0) + "\n" + entry("b", 0), map[int]string{1: "a", 2: "b"}},
		{"CRLF", entry("a", 0) + "\r\n" + entry("b", 0) + "\r\n", map[int]string{1: "a", 2: "b"}},
		{"empty lines count", "\n" + entry("a", 0) + "\n\r\n\n" + entry("b", 0) + "\n\n", map[int]string{2: "a", 5: "b"}},
		{"malformed", "?\n" + entry("a", 0) + "\n?", map[int]string{1: "!", 2: "a", 3: "!"}},
		{"longest", entry("a", longest) + "\n" + entry("b", longest) + "\r\n" + entry("c", longest), map[int]string{1: "a", 2: "b", 3: "c"}},
		{"too long", entry("a", longest+1) + "\n" + entry("b", 0) + "\n" + entry("c", 3*longest), map[int]string{1: "!", 2: "b", 3: "!"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := readAll(t, strings.NewReader(c.log))
			require.NoError(t, err)
			require.Equal(t, c.want, got, "plain")

			got, err = readAll(t, iotest.HalfReader(bytes.NewReader(compress(t, c.log))))
			require.NoError(t, err)
			require.Equal(t, c.want, got, "gzip")
		})
	}
}

func compress(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestReaderFails(t *testing.T) {
	t.Parallel()
	t.Run("gzip that ends early", func(t *testing.T) {
		t.Parallel()
		whole := compress(t, strings.Repeat(entry("a", 0)+"\n", 1000))
		_, err := readAll(t, bytes.NewReader(whole[:len(whole)-4]))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorContains(t, err, "after line 1000: ")
	})
	t.Run("no gzip behind its magic bytes", func(t *testing.T) {
		t.Parallel()
		_, err := readAll(t, strings.NewReader("\x1f\x8b, nothing else"))
		require.ErrorIs(t, err, gzip.ErrHeader)
	})
	t.Run("a file that cannot be read", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("broken")
		_, err := readAll(t, iotest.ErrReader(broken))
		require.ErrorIs(t, err, broken)
		_, err = readAll(t, io.MultiReader(strings.NewReader(entry("a", 0)+"\n"), iotest.ErrReader(broken)))
		require.ErrorIs(t, err, broken)
	})
}
