package ration_test

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by SHA-1
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

var (
	headerLine = regexp.MustCompile(`(?m)^-- (KEYS|ARGV|Reply|Cost|Uses): +(.*)$`)
	continued  = regexp.MustCompile(`\n--  +`)
	redisCall  = regexp.MustCompile(`redis\.call\('([A-Z]+)'`)
	anyCall    = regexp.MustCompile(`redis\.p?call\(`)
	replyTable = regexp.MustCompile(`(?m)^return \{ (.*) \}$`)
	comment    = regexp.MustCompile(`(?m)--.*$`)
)

// What a script's header says holds for its body and for what the Go side sends and reads.
func TestScriptHeaders(t *testing.T) {
	t.Parallel()
	plans := map[string]ration.Plan{
		"fixedwindow":   ration.FixedWindow{Limit: 1, Window: 1e9},
		"slidingwindow": ration.SlidingWindow{Limit: 1, Window: 1e9},
		"slidinglog":    ration.SlidingLog{Limit: 1, Window: 1e9},
		"tokenbucket":   ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 1},
		"gcra":          ration.GCRA{Rate: ration.PerSecond(1), Burst: 1},
	}
	var all ration.MultiPlan
	for name, plan := range plans {
		all = append(all, ration.NamedPlan{Name: name, Plan: plan})
	}
	plans["multiplan"] = all
	scripts := ration.Scripts()
	require.Len(t, scripts, 3*len(plans)+len([]string{"gcra_one", "fleet_beat"})+
		len([]string{"fixedwindow_many", "slidingwindow_many", "tokenbucket_many", "gcra_many"}))
	for _, s := range scripts {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			require.True(t, strings.HasPrefix(s.Source, "-- "+s.Name+".lua: "), "first line")
			header := make(map[string]string)
			for _, match := range headerLine.FindAllStringSubmatch(continued.ReplaceAllString(s.Source, " "), -1) {
				header[match[1]] = match[2]
			}
			code := comment.ReplaceAllString(s.Source, "")

			require.NotEmpty(t, header["Cost"])
			name, verb, _ := strings.Cut(s.Name, "_")
			if name == "multiplan" {
				require.Equal(t, "key of each plan", header["KEYS"])
				require.Contains(t, header["ARGV"], "of each plan its kind, and ")
				require.Contains(t, header["Reply"], "of each plan what its own script replies")
				require.Zero(t, s.Fields)
			} else {
				if verb == "many" {
					require.Equal(t, "keys", header["KEYS"])
					require.Contains(t, header["ARGV"], "; of each key: count requests")
					require.True(t, strings.HasPrefix(header["Reply"], "of each key: granted requests, below 0 where there is no decision; "))
				} else {
					require.Equal(t, "key", header["KEYS"])
				}
				require.NotContains(t, code, "KEYS[2]")
				arguments := 1 // of the fleet, the process
				if name != "fleet" {
					var err error
					arguments, err = ration.ScriptArguments(plans[name], verb)
					require.NoError(t, err)
				}
				require.Len(t, strings.Split(header["ARGV"], "; "), arguments, "ARGV")

				fields := strings.Split(header["Reply"], "; ")
				if verb == "many" {
					require.Zero(t, s.Fields)
					require.Contains(t, code, fmt.Sprintf("reply, fields, arguments = {}, %d, %d\n", len(fields), arguments-1))
					require.Contains(t, code, fmt.Sprintf("reply[filled + %d]", len(fields)), "Reply")
					require.NotContains(t, code, fmt.Sprintf("reply[filled + %d]", len(fields)+1), "Reply")
				} else {
					require.Len(t, fields, s.Fields)
					returned := replyTable.FindStringSubmatch(s.Source)
					require.NotNil(t, returned, "integers are returned")
					require.Len(t, splitList(returned[1]+"}"), len(fields), "Reply")
				}
			}

			var used []string
			for _, match := range redisCall.FindAllStringSubmatch(code, -1) {
				used = append(used, match[1])
			}
			require.Len(t, anyCall.FindAllString(code, -1), len(used), "each command is named where it is called")
			slices.Sort(used)
			used = slices.Compact(used)
			require.Equal(t, strings.Fields(header["Uses"]), used, "Uses")
			if verb == "peek" {
				require.Empty(t, slices.DeleteFunc(used, reads), "a peek writes nothing")
			}

			// Numbers reach commands whole: no tostring, nothing glued together.
			require.NotContains(t, code, "tostring")
			require.NotContains(t, code, "..")
			for _, arguments := range callArguments(code) {
				for _, argument := range arguments[1:] {
					require.Regexp(t, text, argument, "argument of %s", arguments[0])
				}
			}
		})
	}
}

// text are the expressions that may be arguments of a command: none is a number. (under is an argument as it came, or with what
// whole made; arrival what was stored or whole made; moment, from, upTo and refundsFrom are what whole made; added, merged and
// member what entry made.)
var text = regexp.MustCompile(`^(key|KEYS\[i\]|'[\w+-]+'|whole\(.*\)|granted == 1 and ARGV\[1\] or whole\(units\)|entry\(.*\)|process|under|arrival|counted|moment|from|upTo|refundsFrom|added|all|merged|marked|member|one|other|to|both\[\d\]|around\[j \+ 2\]|kept|many and '\+inf' or '\d+'|oldest\[1\])$`)

// reads says whether a command only reads.
func reads(command string) bool {
	return slices.Contains([]string{
		"GET", "HMGET", "PEXPIRETIME", "PTTL", "TIME", "ZCOUNT", "ZRANGE", "ZRANGEBYSCORE", "ZRANK", "ZREVRANGEBYSCORE",
	}, command)
}

// callArguments are the arguments of each redis.call in a script.
func callArguments(code string) [][]string {
	var calls [][]string
	for _, at := range anyCall.FindAllStringIndex(code, -1) {
		calls = append(calls, splitList(code[at[1]:]))
	}
	return calls
}

// splitList splits a list at its commas, as far as the parenthesis or brace that ends it.
func splitList(code string) []string {
	depth, start := 0, 0
	var items []string
	for i, c := range code {
		switch {
		case strings.ContainsRune("([{", c):
			depth++
		case strings.ContainsRune(")]}", c) && depth > 0:
			depth--
		case strings.ContainsRune(")]},", c) && depth == 0:
			items = append(items, strings.TrimSpace(code[start:i]))
			start = i + 1
			if c != ',' {
				return items
			}
		}
	}
	return items
}

// The digests by which scripts are called are those of their text, and the list of them is up to date.
func TestScriptDigests(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("scripts/SHA1SUMS")
	require.NoError(t, err)
	var want strings.Builder
	for _, s := range ration.Scripts() {
		digest := fmt.Sprintf("%x", sha1.Sum([]byte(s.Source))) //nolint:gosec // as above
		require.Equal(t, digest, s.Digest, s.Name)
		fmt.Fprintf(&want, "%s  %s.lua\n", digest, s.Name)
	}
	require.Equal(t, want.String(), string(list))
}
