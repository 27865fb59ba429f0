package simulate

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a trace may be at most.
const (
	MaxArrivals = 1_000_000
	MaxSeconds  = 2_000_000_000 // of its times: 63 years, so that seconds since 1970 will do
	MaxUnits    = 1 << 52       // of its costs together
)

// maxLine is the length that a line stays below, bytes.
const maxLine = 1 << 16

// Read reads a trace to its end and puts its arrivals in the order of their times. A line is the time of an arrival, in
// seconds, and its cost, which may be left out and is then 1. Empty lines, and those that begin with #, say nothing. The error
// of a line that is not understood begins with its number.
func Read(r io.Reader) (Trace, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var t Trace
	var units int64
	number := 0
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		a, err := parseArrival(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", number, err)
		case len(t) == MaxArrivals:
			return nil, fmt.Errorf("line %d: there are more than %d arrivals", number, MaxArrivals)
		case a.Cost > MaxUnits-units:
			return nil, fmt.Errorf("line %d: the costs add up to more than %d", number, int64(MaxUnits))
		}
		units += a.Cost
		t = append(t, a)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: it is longer than %d bytes", number+1, maxLine-1)
	case err != nil:
		return nil, err
	case len(t) == 0:
		return nil, errors.New("the trace is empty")
	}
	slices.SortStableFunc(t, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return t, nil
}

// parseArrival reads a line that is not empty.
func parseArrival(line string) (Arrival, error) {
	words := strings.Fields(line)
	a := Arrival{Cost: 1}
	var err error
	if a.At, err = parseSeconds(words[0]); err != nil {
		return Arrival{}, err
	}
	if len(words) > 1 {
		if a.Cost, err = parseCost(words[1]); err != nil {
			return Arrival{}, err
		}
	}
	if len(words) > 2 {
		return Arrival{}, fmt.Errorf("%.40q is too much: want seconds and a cost", words[2])
	}
	return a, nil
}

// parseSeconds reads a decimal number to the microsecond, in whole numbers: no float holds 0.99.
func parseSeconds(word string) (time.Duration, error) {
	refuse := func(wanted string) (time.Duration, error) {
		return 0, fmt.Errorf("seconds %.40q: want %s", word, wanted)
	}
	whole, part, _ := strings.Cut(word, ".")
	if !isDigits(whole + part) {
		return refuse("a decimal number of 0 or more, such as 0.99")
	}
	const decimals = len("000000")
	part = strings.TrimRight(part, "0")
	if len(part) > decimals {
		return refuse("whole microseconds, so at most 6 decimals")
	}
	part += strings.Repeat("0", decimals-len(part))
	micros, err := strconv.ParseInt(whole+part, 10, 64)
	if err != nil || micros > MaxSeconds*int64(time.Second/time.Microsecond) {
		return refuse("at most " + strconv.Itoa(MaxSeconds))
	}
	return time.Duration(micros) * time.Microsecond, nil
}

func parseCost(word string) (int64, error) {
	if !isDigits(word) {
		return 0, fmt.Errorf("cost %.40q: want a whole number", word)
	}
	cost, err := strconv.ParseInt(word, 10, 64)
	if err != nil || cost > MaxUnits {
		return 0, fmt.Errorf("cost %.40q: want at most %d", word, int64(MaxUnits))
	}
	return cost, nil
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
