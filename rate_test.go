package ration_test

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-ration/ration"
)

func TestParseRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want ration.Rate
		back string // what String writes, if not text
	}{
		{"100/s", ration.PerSecond(100), ""},
		{"5/10m", ration.Rate{Units: 5, Per: 10 * time.Minute}, ""},
		{"1/2s", ration.Every(2 * time.Second), ""},
		{"60/m", ration.PerMinute(60), ""},
		{"7/h", ration.PerHour(7), ""},
		{"1000/d", ration.PerDay(1000), ""},
		{"1/day", ration.PerDay(1), "1/d"},
		{"1/1s", ration.PerSecond(1), "1/s"},
		{"1/10s", ration.Every(10 * time.Second), ""},
		{"1/24h", ration.PerDay(1), "1/d"},
		{"3/1.5s", ration.Rate{Units: 3, Per: 1500 * time.Millisecond}, "3/1500ms"},
		{"1/1h30m", ration.Every(90 * time.Minute), "1/90m"},
		{"1/1500ns", ration.Every(1500), ""},
	} {
		got, err := ration.ParseRate(c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got, c.text)
		if c.back == "" {
			c.back = c.text
		}
		require.Equal(t, c.back, got.String())
	}
}

func TestParseRateError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, word string
		offset     int
	}{
		{"", "", 0},
		{"100", "100", 0},
		{"x/s", "x", 0},
		{"1.5/s", "1.5", 0},
		{"100/", "", 4},
		{"100/fortnight", "fortnight", 4},
		{"5/10x", "10x", 2},
		{"5/seconday", "seconday", 2},
		{"5/999999999999d", "999999999999d", 2},
		{"99999999999999999999/s", "99999999999999999999", 0},
	} {
		_, err := ration.ParseRate(c.text)
		var wrong *ration.ParseError
		require.ErrorAs(t, err, &wrong, c.text)
		require.Equal(t, c.word, wrong.Word, c.text)
		require.Equal(t, c.offset, wrong.Offset, c.text)
	}
}

func TestParsePlan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ration.Plan{
		"fixed-window 60/2h":                 ration.FixedWindow{Limit: 60, Window: 2 * time.Hour},
		"fixed-window 60/1m aligned":         ration.FixedWindow{Limit: 60, Window: time.Minute, Aligned: true},
		"fixed-window 5/15m restart-on-deny": ration.FixedWindow{Limit: 5, Window: 15 * time.Minute, RestartOnDeny: true},
		"token-bucket 1/2s burst 5":          ration.TokenBucket{Rate: ration.Every(2 * time.Second), Burst: 5},
		"sliding-window 60/2h":               ration.SlidingWindow{Limit: 60, Window: 2 * time.Hour},
		"sliding-log 100/1s":                 ration.SlidingLog{Limit: 100, Window: time.Second},
		"gcra 100/s burst 20":                ration.GCRA{Rate: ration.PerSecond(100), Burst: 20},
		"gcra 60/7s burst 5":                 ration.GCRA{Rate: ration.Rate{Units: 60, Per: 7 * time.Second}, Burst: 5},
		"token-bucket 100/s burst 20":        ration.TokenBucket{Rate: ration.PerSecond(100), Burst: 20},
	} {
		got, err := ration.ParsePlan(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.Equal(t, text, got.String())
		got, err = ration.ParsePlan(" \t" + strings.ReplaceAll(text, " ", "  ") + "\n")
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParsePlanPointsAtTheWord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, pointer, wanted string }{
		{"", "\n^", "want fixed-window, sliding-window, sliding-log, token-bucket or gcra"},
		{"leaky 5/s", "leaky 5/s\n^^^^^", "want fixed-window, sliding-window, sliding-log, token-bucket or gcra"},
		{"token-bucket 1/2s", "token-bucket 1/2s\n                 ^", "burst"},
		{"token-bucket 1/2s brust 5", "token-bucket 1/2s brust 5\n                  ^^^^^", "burst"},
		{"token-bucket 1/2s burst five", "token-bucket 1/2s burst five\n                        ^^^^", "whole number"},
		{"token-bucket 1/2s burst", "token-bucket 1/2s burst\n                       ^", "number of units"},
		{"token-bucket 1/2s burst 5 6", "token-bucket 1/2s burst 5 6\n                          ^", "nothing more"},
		{"fixed-window 60/2q", "fixed-window 60/2q\n                ^^", "span of time"},
		{"fixed-window 60", "fixed-window 60\n             ^^", "units per time"},
		{"fixed-window 60/1m alined", "fixed-window 60/1m alined\n                   ^^^^^^", "aligned"},
		{"fixed-window 60/1m aligned aligned", "fixed-window 60/1m aligned aligned\n                           ^^^^^^^", "nothing more"},
		{"sliding-window 60", "sliding-window 60\n               ^^", "units per time"},
		{"sliding-log 60/1m aligned", "sliding-log 60/1m aligned\n                  ^^^^^^^", "nothing more"},
		{"gcra 1/2s", "gcra 1/2s\n         ^", "burst"},
		{"ключ 60/2q", "ключ 60/2q\n^^^^", "fixed-window"},
	} {
		_, err := ration.ParsePlan(c.text)
		var wrong *ration.ParseError
		require.ErrorAs(t, err, &wrong, c.text)
		require.Equal(t, c.pointer, wrong.Pointer(), c.text)
		require.Contains(t, wrong.Error(), c.wanted, c.text)
	}
	_, err := ration.ParsePlan("fixed-window 60/1m aligned restart-on-deny")
	var impossible *ration.PlanError
	require.ErrorAs(t, err, &impossible)
	require.Equal(t, "RestartOnDeny", impossible.Field)
}

// Whatever is written, parsing it ends in a plan that is written the same from then on, or in an error of one of two kinds.
func FuzzParsePlan(f *testing.F) {
	for _, text := range []string{"fixed-window 60/2h aligned", "token-bucket 1/2s burst 5", "token-bucket 1/ burst", "x", "5/\xff d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		plan, err := ration.ParsePlan(text)
		if err != nil {
			var wrong *ration.ParseError
			var impossible *ration.PlanError
			if errors.As(err, &wrong) {
				require.Equal(t, wrong.Word, text[wrong.Offset:wrong.Offset+len(wrong.Word)])
				_ = wrong.Pointer()
			} else {
				require.ErrorAs(t, err, &impossible)
			}
			return
		}
		again, err := ration.ParsePlan(plan.String())
		require.NoError(t, err)
		require.Equal(t, plan, again)
	})
}

// A rate is counted exactly, or, where its numbers are too great, less than one part in a million below.
func TestRateIsExactOrLower(t *testing.T) {
	t.Parallel()
	for _, r := range []ration.Rate{
		ration.PerSecond(1), ration.PerSecond(7), ration.PerSecond(11),
		{Units: 60, Per: 7 * time.Second},
		ration.PerSecond(3),
		ration.PerSecond(2000), ration.PerDay(1), ration.PerDay(7), ration.Every(30 * 24 * time.Hour), ration.PerSecond(1_000_000),
		ration.Every(time.Nanosecond), ration.Every(70 * 365 * 24 * time.Hour),
	} {
		num, den, err := ration.Exact(r)
		require.NoError(t, err, r)
		require.Zero(t, new(big.Rat).Sub(perMicro(r), big.NewRat(num, den)).Sign(), "%v is %d/%d", r, num, den)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := ration.Rate{
			Units: rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, 1_000_000_000_000)).Draw(t, "units"),
			Per:   time.Duration(rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, math.MaxInt64)).Draw(t, "per")),
		}
		num, den, err := ration.Exact(r)
		if err != nil {
			// Too slow: below a unit in 2^51 us, give or take the rounding.
			require.Negative(t, perMicro(r).Cmp(big.NewRat(1, 1<<51-1<<30)), "%v: %v", r, err)
			return
		}
		exact, counted := perMicro(r), big.NewRat(num, den)
		require.LessOrEqual(t, counted.Cmp(exact), 0, "%v is counted as %d/%d", r, num, den)
		require.LessOrEqual(t, new(big.Int).Mul(big.NewInt(den), big.NewInt(num+1)).Cmp(big.NewInt(1<<52)), 0)
		short := new(big.Rat).Sub(exact, counted)
		require.Negative(t, short.Quo(short, exact).Cmp(big.NewRat(1, 1_000_000)), "%v is counted as %d/%d", r, num, den)
	})
}

func perMicro(r ration.Rate) *big.Rat {
	return new(big.Rat).Quo(new(big.Rat).SetInt64(r.Units), big.NewRat(int64(r.Per), 1000))
}
