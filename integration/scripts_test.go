package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// scriptFile is a script as it is shipped, and what its header says.
type scriptFile struct {
	name, source, digest  string
	keys, arguments, uses []string
}

// readScript reads a script by its name, fixedwindow_take.
func readScript(t *testing.T, name string) scriptFile {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "scripts", name+".lua"))
	require.NoError(t, err)
	digests, err := os.ReadFile(filepath.Join("..", "scripts", "SHA1SUMS"))
	require.NoError(t, err)
	s := scriptFile{name: name, source: string(source)}
	for line := range strings.Lines(string(digests)) {
		if digest, found := strings.CutSuffix(strings.TrimSpace(line), "  "+name+".lua"); found {
			s.digest = digest
		}
	}
	require.NotEmpty(t, s.digest, name)
	for line := range strings.Lines(strings.ReplaceAll(s.source, "\n--     ", " ")) { // a header may go on in the next line
		head, rest, _ := strings.Cut(line, ":")
		switch rest = strings.TrimSpace(rest); head {
		case "-- KEYS":
			s.keys = strings.Split(rest, "; ")
		case "-- ARGV":
			s.arguments = strings.Split(rest, "; ")
		case "-- Uses":
			s.uses = strings.Fields(rest)
		}
	}
	require.NotEmpty(t, s.keys, name)
	require.NotEmpty(t, s.arguments, name)
	require.NotEmpty(t, s.uses, name)
	return s
}

// readScripts reads all scripts that are shipped.
func readScripts(t *testing.T) []scriptFile {
	t.Helper()
	paths, err := filepath.Glob("../scripts/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	scripts := make([]scriptFile, len(paths))
	for i, path := range paths {
		scripts[i] = readScript(t, strings.TrimSuffix(filepath.Base(path), ".lua"))
	}
	return scripts
}

// scriptInput is what a script is called with.
type scriptInput struct {
	keys      int // 0: as many as the header names
	arguments []any
}

func arguments(arguments ...any) scriptInput { return scriptInput{arguments: arguments} }

// ofTwoKeys are the arguments of a script for several keys, called with two: the last two are their counts.
func ofTwoKeys(arguments ...any) scriptInput { return scriptInput{keys: 2, arguments: arguments} }

// scriptInputs are the arguments of every script, in the order of its header: a grant, a denial, a look, and every mode. They
// are given one after the other, twice, on the keys that all scripts of a plan share. A new script has to be entered here.
var scriptInputs = map[string][]scriptInput{
	"fixedwindow_many": {
		ofTwoKeys(1, 5, 60_000, 0, 1, 2), ofTwoKeys(5, 5, 60_000, 0, 1, 1), ofTwoKeys(1, 5, 30_000, 1, 9, 1), ofTwoKeys(0, 5, 30_000, 1, 1, 1),
	},
	"fixedwindow_peek": {arguments(5, 60_000, 0), arguments(5, 60_000, 1)},
	"fixedwindow_take": {
		arguments(1, 1, 5, 60_000, 0), arguments(5, 1, 5, 60_000, 0), arguments(1, 2, 5, 30_000, 1),
		arguments(9, 1, 5, 20_000, 2), arguments(0, 1, 5, 10_000, 3),
	},
	"fixedwindow_refund": {arguments(1, 1_700_000_000_000)},
	"fleet_beat":         {arguments("process")},
	"gcra_many": {
		ofTwoKeys(1_000_000, 5_000_000, 1, 2, 1), ofTwoKeys(1_000_000, 5_000_000, 1, 1, 9), ofTwoKeys(9_000_000, 5_000_000, 1, 1, 1),
	},
	"gcra_one":  {arguments(1_000_000, 5_000_000, 1), arguments(9_000_000, 5_000_000, 1)},
	"gcra_peek": {arguments(5_000_000, 1)},
	"gcra_take": {
		arguments(1_000_000, 2, 5_000_000, 1), arguments(1_000_000, 9, 5_000_000, 1), arguments(9_000_000, 1, 5_000_000, 1),
	},
	"gcra_refund":     {arguments(1_000_000, 1_000_000, 1_700_000_000_000_000, 5_000_000, 1), spentLately},
	"slidinglog_peek": {arguments(5, 60_000_000)},
	"slidinglog_take": {
		arguments(1, 1, 5, 60_000_000), arguments(1, 2, 5, 60_000_000), arguments(4, 1, 5, 60_000_000),
		arguments(3, 1, 5, 120_000_000), arguments(2, 2, 500, 1),
	},
	"slidinglog_refund": {arguments(1, 1, 1_700_000_000_000_000)},
	"slidingwindow_many": {
		ofTwoKeys(1, 5, 60_000_000, 1, 2), ofTwoKeys(9, 5, 60_000_000, 1, 1), ofTwoKeys(1, 50, 7_000_000, 1, 1),
	},
	"slidingwindow_peek": {arguments(5, 60_000_000)},
	"slidingwindow_take": {
		arguments(1, 1, 5, 60_000_000), arguments(1, 2, 5, 60_000_000), arguments(9, 1, 5, 60_000_000),
		arguments(1, 1, 50, 7_000_000),
	},
	"slidingwindow_refund": {arguments(1, 1_700_000_000_000_000, 60_000_000)},
	"tokenbucket_many": {
		ofTwoKeys(1, 5, 1, 1_000_000, "5 1 1000000", 1, 2), ofTwoKeys(9, 5, 1, 1_000_000, "5 1 1000000", 1, 1),
		ofTwoKeys(1, 7, 3, 1_000_000, "7 3 1000000", 2, 1),
	},
	"tokenbucket_peek": {arguments(5, 1, 1_000_000, "5 1 1000000")},
	"tokenbucket_take": {
		arguments(1, 1, 5, 1, 1_000_000, "5 1 1000000"), arguments(9, 1, 5, 1, 1_000_000, "5 1 1000000"),
		arguments(1, 2, 7, 3, 1_000_000, "7 3 1000000"),
	},
	"tokenbucket_refund": {arguments(1, 4, 0, inAWhile, 0, 7, 3, 1_000_000, "7 3 1000000")},
	"multiplan_peek":     {{keys: 5, arguments: ofEachPlan(nil)}},
	"multiplan_take": {
		{keys: 5, arguments: ofEachPlan([]any{1, 1})},
		{keys: 5, arguments: ofEachPlan([]any{9, 1})},
		{keys: 5, arguments: ofEachPlan([]any{1, 9})},
		{keys: 5, arguments: ofEachPlan([]any{0, 1})},
	},
	"multiplan_refund": {{keys: 5, arguments: []any{
		"fw", 1, 1_700_000_000_000, "sw", 1, 1_700_000_000_000_000, 60_000_000, "sl", 1, 1, 1_700_000_000_000_000,
		"tb", 1, 4, 0, inAWhile, 0, 5, 1, 1_000_000, "5 1 1000000", "gc", 1_000_000, 1_000_000, 1_700_000_000_000_000, 5_000_000, 1,
	}}},
}

// inAWhile is a moment that no test sees: what was taken then is not earned again.
const inAWhile = 4_000_000_000_000_000

// spentLately gives back what was spent a moment ago by the clock of every server.
var spentLately = arguments(1_000_000, 4_000_000_000_000_000, 1, 5_000_000, 1)

// ofEachPlan are arguments of a script of several plans: of one of each kind.
func ofEachPlan(lead []any) []any {
	return append(slices.Clone(lead), "fw", 5, 60_000, 0, "sw", 5, 60_000_000, "sl", 5, 60_000_000,
		"tb", 5, 1, 1_000_000, "5 1 1000000", "gc", 5_000_000, 1, 1_000_000)
}

// eachScriptCall calls a function with every script, and with what the script is to be called with for a hash tag.
func eachScriptCall(t *testing.T, prefix, tag string, call func(t *testing.T, s scriptFile, keys []string, arguments []any)) {
	t.Helper()
	for _, s := range readScripts(t) {
		inputs := scriptInputs[s.name]
		require.NotEmpty(t, inputs, "%s is not tested: it has no arguments here", s.name)
		for _, input := range append(inputs, inputs...) {
			if !strings.Contains(s.arguments[len(s.arguments)-1], "of each ") {
				require.Len(t, input.arguments, len(s.arguments), "%s: %q", s.name, s.arguments)
			}
			n := input.keys
			if n == 0 {
				n = len(s.keys)
			}
			plan, _, _ := strings.Cut(s.name, "_")
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprintf("%s:limiter:%s:{%s}:%d", prefix, plan, tag, i)
			}
			call(t, s, keys, input.arguments)
		}
	}
}

// requireRuns fails where a script has met an error: that for several keys replies it, by a number below 0 that says how many it granted.
func requireRuns(t *testing.T, script scriptFile, reply *redis.Cmd, arguments []any) {
	t.Helper()
	require.NoError(t, reply.Err(), "%s %v", script.name, arguments)
	if !strings.HasSuffix(script.name, "_many") {
		return
	}
	all, err := reply.Int64Slice()
	require.NoError(t, err)
	for i := 0; i < len(all); i += len(all) / 2 {
		require.GreaterOrEqual(t, all[i], int64(0), "%s %v: %v", script.name, arguments, all)
	}
}

// Each script works for a user who may touch exactly its keys, with exactly the commands its header names, and is refused
// where one of the keys is another: none touches a key that it is not given, in whatever slot.
func TestScriptsWithLeastPermissions(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s := startServer(t, image)
		require.NoError(t, s.rdb.Do(t.Context(), "acl", "setuser", "app", "on", ">app").Err())
		app := s.newRedis(t, func(o *redis.Options) { o.Username, o.Password = "app", "app" })
		prefix := freshPrefix()
		eachScriptCall(t, prefix, "tenant:42", func(t *testing.T, script scriptFile, keys []string, arguments []any) {
			t.Helper()
			require.NoError(t, permit(t.Context(), s.rdb, keys, script.uses))
			requireRuns(t, script, app.Eval(t.Context(), script.source, keys, arguments...), arguments)
			for i := range keys {
				others := append([]string(nil), keys...)
				others[i] += "0"
				err := app.Eval(t.Context(), script.source, others, arguments...).Err()
				require.True(t, redis.HasErrorPrefix(err, "NOPERM"), "%s: %v", script.name, err)
			}
		})

		// The check can fail.
		require.NoError(t, permit(t.Context(), s.rdb, []string{prefix}, []string{"EXISTS"}))
		for key, allowed := range map[string]bool{prefix: true, prefix + "0": false} {
			err := app.Eval(t.Context(), "return redis.call('EXISTS', ARGV[1])", []string{prefix}, key).Err()
			require.Equal(t, allowed, err == nil, "%v", err)
		}
	})
}

// permit lets the user app run scripts with some commands on some keys, and nothing else.
func permit(ctx context.Context, admin *redis.Client, keys, commands []string) error {
	rules := []any{"acl", "setuser", "app", "resetkeys", "nocommands", "+eval", "+evalsha"}
	for _, key := range keys {
		rules = append(rules, "~"+key)
	}
	for _, command := range commands {
		rules = append(rules, "+"+strings.ToLower(command))
	}
	return admin.Do(ctx, rules...).Err()
}

// strictly has a node of a cluster refuse a script that touches a key which it is not given, if that has another slot.
func strictly(source string) string { return "#!lua\n" + source }

// Each script works on every node of a cluster that refuses undeclared keys.
func TestScriptsOnClusterDeclareTheirKeys(t *testing.T) {
	t.Parallel()
	c := startCluster(t, redis8)
	prefix := freshPrefix()
	for i := range 10 {
		tag := fmt.Sprint("tenant:", i)
		eachScriptCall(t, prefix, tag, func(t *testing.T, script scriptFile, keys []string, arguments []any) {
			t.Helper()
			requireRuns(t, script, c.rdb.Eval(t.Context(), strictly(script.source), keys, arguments...), arguments)
		})
		// The check can fail.
		err := c.rdb.Eval(t.Context(), strictly("return redis.call('EXISTS', ARGV[1])"), []string{"{" + tag + "}"}, "other").Err()
		require.True(t, redis.HasErrorPrefix(err, "Script attempted to access"), "%v", err)
	}
	c.eachMaster(t, func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, prefix+":*").Result()
		if err == nil && len(keys) == 0 {
			err = errors.New("a master that no script ran on")
		}
		return err
	})
}

// scriptHook does something before each script call of a redis client, and remembers which scripts were called.
type scriptHook struct {
	scripts []scriptFile
	before  func(ctx context.Context, cmd redis.Cmder, script scriptFile, keys []string) error
	called  sync.Map // names
}

func newScriptHook(
	t *testing.T, before func(ctx context.Context, cmd redis.Cmder, script scriptFile, keys []string) error,
) *scriptHook {
	t.Helper()
	return &scriptHook{scripts: readScripts(t), before: before}
}

func (*scriptHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*scriptHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *scriptHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		for _, script := range h.scripts {
			// EVALSHA digest 1 key, or EVAL source 1 key.
			if len(args) < 4 || args[1] != script.digest && args[1] != script.source {
				continue
			}
			n, err := strconv.Atoi(fmt.Sprint(args[2]))
			if err != nil {
				return err
			}
			var keys []string
			for _, key := range args[3 : 3+n] {
				keys = append(keys, fmt.Sprint(key))
			}
			if err := h.before(ctx, cmd, script, keys); err != nil {
				return err
			}
			h.called.Store(script.name, true)
		}
		return next(ctx, cmd)
	}
}

// requireAll fails where a script was not called that a request may call by itself.
func (h *scriptHook) requireAll(t *testing.T) {
	t.Helper()
	for _, script := range h.scripts {
		_, called := h.called.Load(script.name)
		require.True(t, called || script.name == "fleet_beat" || strings.HasSuffix(script.name, "_many"), "%s was not called", script.name)
	}
}
