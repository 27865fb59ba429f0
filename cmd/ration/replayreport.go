package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/go-ration/ration/cmd/ration/internal/replay"
)

// replayReport is what replay prints for people. Long keys are broken to fit into width columns, unless that is 0.
func replayReport(name string, by replay.By, t *replay.Traffic, outcomes []replay.Outcome, top, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, by %s,\n  from %s to %s UTC\n", name, count(t.Requests, "request"), by,
		t.First.Format(time.DateTime), t.Last.Format(time.DateTime))
	b.WriteString(malformedReport(t.Malformed))
	for _, o := range outcomes {
		b.WriteString("\n" + planReport(o, top, width))
	}
	return b.String()
}

func planReport(o replay.Outcome, top, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d admitted, %d denied\n", o.Plan, o.Admitted, o.Denied)
	if o.Denied == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "  denied from %s to %s UTC,\n", o.First().Format(time.DateTime), o.Last().Format(time.DateTime))
	fmt.Fprintf(&b, "  most in the minute of %s: %d\n", o.Worst.Format("2006-01-02 15:04"), o.WorstDenied)
	shown := min(top, len(o.DeniedKeys))
	fmt.Fprintf(&b, "  %d of %s were denied", len(o.DeniedKeys), count(o.Keys, "key"))
	if shown == 0 {
		b.WriteString("\n")
		return b.String()
	}
	if shown < len(o.DeniedKeys) {
		fmt.Fprintf(&b, "; the %d denied most", shown)
	}
	b.WriteString(":\n\n")
	table := newTable("key", "denied", "first denial", "last denial")
	for _, d := range o.DeniedKeys[:shown] {
		table.Row(printable(d.Key, width), strconv.Itoa(d.Count), d.First.Format(time.DateTime), d.Last.Format(time.DateTime))
	}
	b.WriteString(render(table))
	return b.String()
}

// malformedReport gives the numbers of the malformed lines, or of the first of them, and what is wrong with the first; it
// is empty if there is none.
func malformedReport(m replay.Malformed) string {
	if m.Count == 0 {
		return ""
	}
	numbers := make([]string, len(m.First))
	for i, line := range m.First {
		numbers[i] = strconv.Itoa(line.Number)
	}
	if m.Count > len(m.First) {
		numbers = append(numbers, "…")
	}
	return fmt.Sprintf("%s left out: %s\n  line %d: %v\n",
		count(m.Count, "malformed line"), strings.Join(numbers, ", "), m.First[0].Number, m.First[0].Err)
}

// printable is a text out of a log as a terminal may be shown it, in up to five lines of what a table of width columns
// leaves for it.
func printable(text string, width int) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		text = strconv.Quote(text)
	}
	if width > 0 {
		const others = 54 // columns, of the table but that of the keys
		room := max(width-others, 10)
		text = ansi.Hardwrap(ansi.Truncate(text, 5*room, "…"), room, true)
	}
	return text
}

// count is a number with its noun, which takes an s.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
