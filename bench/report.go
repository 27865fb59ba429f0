package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// report is all that a run found out.
type report struct {
	when        time.Time
	machine     string
	redis       string // name, version and place
	versions    []string
	command     string
	settings    settings
	peers       []peer
	throughputs []throughput
	serverTimes figures
	memories    []memory
}

// write writes the report in Markdown that reads well as plain text.
func (r *report) write(w io.Writer) error {
	p := &printer{w: w}
	p.printf("# How fast a decision is\n\n")
	p.printf("Date: %s  \n", r.when.Format("2 January 2006"))
	p.printf("Machine: %s  \n", r.machine)
	p.printf("Server: %s  \n", r.redis)
	if len(r.versions) > 0 {
		p.printf("Modules: %s  \n", strings.Join(r.versions, ", "))
	}
	p.printf("Command: `%s`\n\n", r.command)

	p.printf("Peers, each with connections of its own and the default options of the redis client:\n\n")
	for _, peer := range r.peers {
		p.printf("* %s: %s\n", peer.name, peer.about)
	}

	p.printf("\n## Decisions a second\n\n")
	p.printf("The question is always: may this key take one unit? Several callers (goroutines of one process) ask it at\n"+
		"once, each as soon as it has its answer. In a round the peers run one after the other, for %v each, and every\n"+
		"round begins with another one. A figure says how many times the decisions of %s in the same round a peer\n"+
		"made; it is the median of %s. 2.00 is twice as fast. The last line is what %s made.\n",
		r.settings.span, baseline, count(r.settings.rounds, "round"), baseline)
	for _, t := range r.throughputs {
		p.printf("\n### %s\n\n", t.work.title)
		if t.work.many {
			p.printf("There are %s keys.\n\n", grouped(float64(r.settings.manyKeys)))
		}
		if t.work.deny {
			p.printf("In every measurement at least %.1f %% of the requests were denied.\n\n", math.Floor(t.leastDenied*1000)/10)
		}
		p.table(r.throughput(t))
	}

	p.printf("\n## What a decision costs\n\n")
	p.printf("Time in Redis is that of the script calls alone, on one key, as Redis counts it (INFO commandstats), again as\n"+
		"a multiple of that of %s: here less is better, and the last line is in microseconds. A script and its raw\n"+
		"call are the same in Redis, so what they differ by shows how exact the figures are. The allocations are those of\n"+
		"the whole client for one allowed decision, the redis client included, with one caller.\n\n", baseline)
	p.table(r.costs())
	return p.err
}

func (r *report) throughput(t throughput) [][]string {
	head := []string{"peer"}
	rows := [][]string{append(head, t.columns...)}
	for i, peer := range r.peers {
		row := []string{peer.name}
		for _, m := range t.multiples[i] {
			row = append(row, number(m))
		}
		rows = append(rows, row)
	}
	last := []string{baseline + ", a second"}
	for _, rate := range t.base {
		last = append(last, grouped(rate))
	}
	return append(rows, last)
}

func (r *report) costs() [][]string {
	head := []string{"peer"}
	for _, column := range r.serverTimes.columns {
		head = append(head, "in Redis, "+column)
	}
	rows := [][]string{append(head, "allocations", "bytes")}
	for i, peer := range r.peers {
		row := []string{peer.name}
		for _, m := range r.serverTimes.multiples[i] {
			row = append(row, number(m))
		}
		row = append(row, grouped(r.memories[i].allocs), grouped(r.memories[i].bytes))
		rows = append(rows, row)
	}
	last := []string{baseline + ", µs"}
	for _, micros := range r.serverTimes.base {
		last = append(last, number(micros))
	}
	return append(rows, append(last, "", ""))
}

// number writes a multiple with what of it can be told apart; what is not known is a dash.
func number(f float64) string {
	switch {
	case math.IsNaN(f):
		return "–"
	case f < 9.995:
		return fmt.Sprintf("%.2f", f)
	case f < 99.95:
		return fmt.Sprintf("%.1f", f)
	default:
		return grouped(f)
	}
}

// count writes how many there are of something.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// grouped writes a whole number in groups of three digits.
func grouped(f float64) string {
	digits := fmt.Sprintf("%.0f", f)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// printer writes until the first error, which it keeps.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// table writes rows, the first of which is the head, as a table of Markdown with its columns aligned: the first to the
// left, the others to the right.
func (p *printer) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for column, text := range row {
			widths[column] = max(widths[column], utf8.RuneCountInString(text))
		}
	}
	for i, row := range rows {
		for column, text := range row {
			pad := strings.Repeat(" ", widths[column]-utf8.RuneCountInString(text))
			if column == 0 {
				p.printf("| %s%s |", text, pad)
			} else {
				p.printf(" %s%s |", pad, text)
			}
		}
		p.printf("\n")
		if i > 0 {
			continue
		}
		for column, width := range widths {
			if column == 0 {
				p.printf("| %s |", strings.Repeat("-", width))
			} else {
				p.printf(" %s: |", strings.Repeat("-", width-1))
			}
		}
		p.printf("\n")
	}
}
