package ration

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of units per span of time: 100 per second, 5 per ten minutes. PerSecond(1) and Every(time.Second) are
// the same Rate.
//
// The zero value is not a rate; a plan that holds it is refused.
type Rate struct {
	// Units is how many units are earned in Per: 1 to 1e12.
	Units int64
	// Per is the span of time in which Units are earned: at least a nanosecond.
	Per time.Duration
}

// PerSecond is a rate of n units a second.
func PerSecond(n int64) Rate { return Rate{Units: n, Per: time.Second} }

// PerMinute is a rate of n units a minute.
func PerMinute(n int64) Rate { return Rate{Units: n, Per: time.Minute} }

// PerHour is a rate of n units an hour.
func PerHour(n int64) Rate { return Rate{Units: n, Per: time.Hour} }

// PerDay is a rate of n units in 24 hours.
func PerDay(n int64) Rate { return Rate{Units: n, Per: day} }

// Every is a rate of one unit per d: Every(2*time.Second) is 1/2s.
func Every(d time.Duration) Rate { return Rate{Units: 1, Per: d} }

// ParseRate reads a rate as String writes it: units, a slash, and a span of time, whose number may be left out where it
// is 1: "100/s", "5/10m", "1/2s", "1000/d". The units of time are those of [time.ParseDuration],
// and d for 24 hours; second, minute, hour and day are understood too.
//
// The error is a *[ParseError] that points at the word it does not understand.
func ParseRate(s string) (Rate, error) {
	units, per, err := parseQuota(s)
	if err != nil {
		return Rate{}, &ParseError{Input: s, Word: err.word, Offset: err.offset, Reason: err.reason}
	}
	return Rate{Units: units, Per: per}, nil
}

// String is the rate as ParseRate reads it: "100/s", "5/10m".
func (r Rate) String() string {
	per := formatSpan(r.Per)
	if len(per) > 1 && per[0] == '1' && (per[1] < '0' || per[1] > '9') {
		per = per[1:]
	}
	return strconv.FormatInt(r.Units, 10) + "/" + per
}

const (
	day = 24 * time.Hour

	// maxUnits bounds the units of a Rate, so that they can be counted in nanoseconds.
	maxUnits = 1_000_000_000_000

	// exactBound is the greatest number the scripts compute with: a quotient of whole numbers up to 2^52 rounds down
	// and up without error in the doubles of Lua, and one up to 2^53 need not.
	exactBound = 1 << 52
)

// perMicro is a rate as the scripts count it: num/den units a microsecond in lowest terms, with den*(num+1) <= exactBound.
type perMicro struct {
	num, den int64
}

// exact gives the rate per microsecond. Where its numbers are too great for exact arithmetic it is the nearest lower rate
// whose numbers are not, less than one part in a million below.
func (r Rate) exact() (perMicro, string) {
	switch {
	case r.Units < 1:
		return perMicro{}, fmt.Sprintf("has %d units: must be at least 1", r.Units)
	case r.Units > maxUnits:
		return perMicro{}, fmt.Sprintf("has %d units: must be at most %d", r.Units, int64(maxUnits))
	case r.Per < 1:
		return perMicro{}, fmt.Sprintf("is per %v: must be per at least 1ns", r.Per)
	}
	num, den := r.Units*int64(time.Microsecond), int64(r.Per)
	g := gcd(num, den)
	wanted := perMicro{num / g, den / g}
	if wanted.fits() {
		return wanted, ""
	}
	lower := wanted.lower()
	if lower.num == 0 || !lower.within(wanted, 1_000_000) {
		return perMicro{}, fmt.Sprintf("is %v: must be at least 1 unit per %v", r, formatSpan((exactBound/2)*time.Microsecond))
	}
	return lower, ""
}

func (r perMicro) fits() bool {
	return r.num < exactBound && r.den <= exactBound/(r.num+1)
}

// lower is the greatest rate not above r whose numbers fit, of those that approach r from below along its continued fraction:
// the lower convergents and the fractions between them. Nothing with a smaller denominator is nearer (A. Khinchin,
// Continued Fractions, §6).
func (r perMicro) lower() perMicro {
	num, den := r.num, r.den
	below, above := perMicro{0, 1}, perMicro{1, 0} // below <= r < above, no terms above those of r
	for {
		towards := func(steps int64) perMicro {
			return perMicro{below.num + steps*above.num, below.den + steps*above.den}
		}
		most := num / den
		steps, tooMany := int64(0), most+1
		for tooMany-steps > 1 {
			if middle := steps + (tooMany-steps)/2; towards(middle).fits() {
				steps = middle
			} else {
				tooMany = middle
			}
		}
		below = towards(steps)
		if steps < most || num%den == 0 {
			return below
		}
		num, den = den, num%den
		above = perMicro{above.num + num/den*below.num, above.den + num/den*below.den}
		if num%den == 0 {
			return below
		}
		num, den = den, num%den
	}
}

// within says whether r, not above wanted, is below it by less than one part in `parts`.
func (r perMicro) within(wanted perMicro, parts int64) bool {
	product := func(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }
	whole := product(wanted.num, r.den)
	short := new(big.Int).Sub(whole, product(r.num, wanted.den))
	return short.Mul(short, big.NewInt(parts)).Cmp(whole) < 0
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// wordError says what is wrong with a word of a rate or plan, and where the word begins.
type wordError struct {
	word   string
	offset int
	reason string
}

// parseQuota reads "60/2h": a whole number and a span of time.
func parseQuota(s string) (units int64, span time.Duration, err *wordError) {
	left, right, found := strings.Cut(s, "/")
	if !found {
		return 0, 0, &wordError{s, 0, `want units per time, such as 100/s or 5/10m`}
	}
	units, numErr := strconv.ParseInt(left, 10, 64)
	if numErr != nil {
		return 0, 0, &wordError{left, 0, "want a whole number of units"}
	}
	span, ok := parseSpan(right)
	if !ok {
		return 0, 0, &wordError{right, len(left) + 1, "want a span of time, such as s, 10m, 1.5h or 2d (m is a minute)"}
	}
	return units, span, nil
}

// parseSpan reads a span of time: what time.ParseDuration reads, or a number of days, or a unit alone.
func parseSpan(s string) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	if s[0] < '0' || s[0] > '9' {
		s = "1" + s
	}
	for _, word := range []string{"second", "minute", "hour", "day"} {
		if number, found := strings.CutSuffix(s, word); found {
			s = number + word[:1]
			break
		}
	}
	if days, found := strings.CutSuffix(s, "d"); found {
		n, err := strconv.ParseInt(days, 10, 64)
		if err != nil || n > math.MaxInt64/int64(day) {
			return 0, false
		}
		return time.Duration(n) * day, true
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

// formatSpan writes d in the greatest unit that leaves it whole, so that parseSpan reads the same.
func formatSpan(d time.Duration) string {
	for _, unit := range []struct {
		name string
		span time.Duration
	}{
		{"d", day},
		{"h", time.Hour},
		{"m", time.Minute},
		{"s", time.Second},
		{"ms", time.Millisecond},
		{"us", time.Microsecond},
	} {
		if d != 0 && d%unit.span == 0 {
			return strconv.FormatInt(int64(d/unit.span), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(d), 10) + "ns"
}

// timeFor is how long so many units take to be earned, or the longest time there is.
func (r Rate) timeFor(units int64) time.Duration {
	hi, lo := bits.Mul64(uint64(units), uint64(r.Per))
	if hi >= uint64(r.Units) {
		return math.MaxInt64
	}
	span, _ := bits.Div64(hi, lo, uint64(r.Units))
	return time.Duration(min(span, math.MaxInt64))
}
