package ration_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests and scenarios that docs/behaviours.md names exist.
func TestBehavioursAreTested(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("docs/behaviours.md")
	require.NoError(t, err)
	var code strings.Builder
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "internal/conformance/")) && strings.HasSuffix(path, ".go") {
			text, readErr := os.ReadFile(path)
			code.Write(text)
			return readErr
		}
		return err
	}))
	tests := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(list), -1)
	require.NotEmpty(t, tests)
	for _, test := range tests {
		require.True(t, strings.Contains(code.String(), "func "+test[1]+"(t *testing.T)"), "no test %s", test[1])
	}
	scenarios := regexp.MustCompile(`scenario (B\d+)`).FindAllStringSubmatch(string(list), -1)
	require.NotEmpty(t, scenarios)
	for _, scenario := range scenarios {
		require.True(t, strings.Contains(code.String(), `{"`+scenario[1]+" "), "no scenario %s", scenario[1])
	}
}

// B53: time in this process is the monotonic clock's, which nobody sets. The wall clock is read once, for where windows begin.
func TestClockInThisProcessOfB53(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	wall := regexp.MustCompile(`.*\.(Unix\w*|Truncate|Round|UTC|Local)\(.*`)
	var read []string
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			source, err := os.ReadFile(path)
			require.NoError(t, err)
			read = append(read, wall.FindAllString(string(source), -1)...)
		}
	}
	require.Equal(t, []string{"var startMicros = start.UnixMicro()"}, read)
}

// The README lists the commands that a user needs: those of the scripts, and ours.
func TestReadmeListsCommands(t *testing.T) {
	t.Parallel()
	needed := []string{"+evalsha", "+eval", "+unlink", "+ping"}
	paths, err := filepath.Glob("scripts/*.lua")
	require.NoError(t, err)
	for _, path := range paths {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, call := range redisCall.FindAllStringSubmatch(string(source), -1) {
			needed = append(needed, "+"+strings.ToLower(call[1]))
		}
	}
	slices.Sort(needed[4:])
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	listed := regexp.MustCompile("(?s)```\n(\\+evalsha .*?)```").FindSubmatch(readme)
	require.NotNil(t, listed)
	require.ElementsMatch(t, slices.Compact(needed), strings.Fields(string(listed[1])))
}

// The program in the README compiles as it stands.
func TestReadmeCompiles(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	program := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindSubmatch(readme)
	require.NotNil(t, program)
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(source, program[1], 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "main"), source).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
