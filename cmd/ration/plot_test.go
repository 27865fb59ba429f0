package main

import (
	"encoding/xml"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlot(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(io.Reader) error{
		"a.png": func(r io.Reader) error {
			_, err := png.Decode(r)
			return err
		},
		"a.SVG": func(r io.Reader) error { return xml.NewDecoder(r).Decode(new(struct{})) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), name)
			for range 2 { // the second picture replaces the first
				got := command(t.Context(), nil, "simulate", "--plot", path,
					"--plan", "fixed-window 100/1s", "--plan", "token-bucket 100/s burst 10")
				require.Equal(t, ended{0, smallSimulation, ""}, got)
				file, err := os.Open(path)
				require.NoError(t, err)
				require.NoError(t, check(file))
				require.NoError(t, file.Close())
				require.Equal(t, []string{name}, filesIn(t, filepath.Dir(path)))
			}
		})
	}
}

func filesIn(t *testing.T, directory string) []string {
	t.Helper()
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A picture that is not drawn leaves what was there before, and nothing else.
func TestPlotNotDrawn(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path := filepath.Join(directory, "a.svg")
	require.NoError(t, os.WriteFile(path, []byte("before"), 0o600))
	got := command(t.Context(), strings.NewReader("x"), "simulate", "--trace", "-", "--plot", path, "--plan", "fixed-window 1/1s")
	require.Equal(t, 1, got.status)
	require.Empty(t, got.out)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before", string(content))
	require.Equal(t, []string{"a.svg"}, filesIn(t, directory))
}

// A file that replaces another may be read by those who could read that one.
func TestPlotMode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.svg")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	got := command(t.Context(), nil, "simulate", "--plot", path, "--plan", "fixed-window 100/1s")
	require.Zero(t, got.status, got.err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Positive(t, info.Size())

	if os.Geteuid() == 0 {
		return // who may write what nobody may write
	}
	require.NoError(t, os.Chmod(path, 0o400))
	got = command(t.Context(), nil, "simulate", "--plot", path, "--plan", "fixed-window 100/1s")
	require.Equal(t, ended{1, "", "ration: --plot " + path + ": permission denied\n"}, got)
}

// What is wrong with --plot shows before anything else is read.
func TestPlotRefused(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	taken := filepath.Join(directory, "taken.svg")
	require.NoError(t, os.Mkdir(taken, 0o700))
	nowhere := filepath.Join(directory, "nowhere", "a.png")
	many := strings.Split(strings.Repeat("--plan,fixed-window 1/1s,", 50), ",")
	many = many[:len(many)-1]
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"another format", []string{"--plot", "a.pdf"}, "--plot a.pdf: want a file that ends in .svg or .png"},
		{"no ending", []string{"--plot", "svg"}, "--plot svg: want a file that ends in .svg or .png"},
		{"no such folder", []string{"--plot", nowhere}, "--plot " + nowhere + ": no such file or directory"},
		{"a folder", []string{"--plot", taken}, "--plot " + taken + ": it is there and no file"},
		{"too many plans", append(many, "--plot", "a.svg"), "--plot a.svg: 51 plans: at most 50 can be drawn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stdin := readerFunc(func([]byte) (int, error) {
				t.Error("the trace is read")
				return 0, io.EOF
			})
			args := append([]string{"simulate", "--trace", "-", "--plan", "fixed-window 1/1s"}, c.args...)
			require.Equal(t, ended{1, "", "ration: " + c.want + "\n"}, command(t.Context(), stdin, args...))
		})
	}
}
