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
	charts      bool // are drawn beside it
	peers       []peer
	throughputs []throughput
	far         []throughput
	onCluster   []throughput
	processes   []throughput
	byCallers   []throughput
	byKeys      throughput
	byLimits    throughput
	serverTimes serverTimes
	logs        logs
	storages    []storage
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
		p.table(t.lines())
	}
	p.printf("\n### Against what is aimed at\n\n")
	p.printf("Multiples of another peer's decisions a second, and the least that they are meant to be. That was set on a machine where one\n" +
		"caller's round trip takes 22 to 57 µs; where a goroutine or a process that sleeps takes longer to wake, more is lost by waiting.\n\n")
	p.table(r.goalLines())

	p.printf("\n## What a decision costs\n\n")
	p.printf("Script calls for each decision (INFO commandstats, EVALSHA), and microseconds that the cores worked for this process, its\n" +
		"callers included: medians of the same rounds. Peers that send other commands, or answer by themselves, call fewer scripts.\n")
	for _, t := range r.throughputs {
		p.printf("\n### %s: script calls\n\n", t.work.title)
		p.table(t.perDecision(t.calls, "%.3f"))
		p.printf("\n### %s: µs of this process\n\n", t.work.title)
		p.table(t.perDecision(t.cpu, "%.2f"))
	}

	r.writeElsewhere(p)
	r.writeGrowth(p)

	p.printf("\n## Time in Redis\n\n")
	p.printf("What a script call on one key takes, as Redis counts it (INFO commandstats), as a multiple of a call of %s\n"+
		"with the same answer: here less is better, and the last line is in microseconds. The scripts run in turn, as\n"+
		"the peers do, %s in each of %s for every figure, which is a median. %q is the script of\n"+
		"%s once more, and shows how exact the figures are.\n\n",
		baseline, count(r.settings.parts, "time"), count(r.settings.rounds, "round"), "the same again", baseline)
	p.table(r.timesInRedis())

	p.printf("\n## SlidingLog\n\n")
	p.printf("Microseconds of a call on logs of so many grants of one unit each. Granted: for one unit, while about one\n"+
		"grant leaves the window for each that comes in; the second column says how many were in it. Denied: of a full log,\n"+
		"for one unit; and for half of its units, where the grants are of 1 and 2 units in turn. In the same rounds an allowed\n"+
		"call of %s took %s µs. Bytes are those of the key (MEMORY USAGE), meant to be at most %s for %s grants.\n\n",
		baseline, number(r.logs.base), grouped(float64(logMemory)), grouped(logMemoryAt))
	p.table(r.logLines())
	p.printf("\nMicroseconds of the longest of the first %d calls that find a log of %s grants out, the median and the longest of\n"+
		"%s. The longest has whatever else the machine did meanwhile. A log that is expired Redis itself frees, in the\n"+
		"first of the calls unless it is told not to (lazyfree-lazy-expire).\n\n",
		outCalls, grouped(float64(r.logs.longest())), count(r.settings.rounds*outRepeats, "log"))
	p.table(r.logOuts())
	p.printf("\nA grant of %s units is stored as %s, in %s bytes.\n",
		grouped(float64(r.logs.grant.cost)), entries(r.logs.grant.entries), grouped(r.logs.grant.bytes))

	p.printf("\n## Memory in Redis\n\n")
	p.printf("Bytes that Redis needs for a key of 12 bytes, with all that finds it and lets it expire: what its allocated memory\n"+
		"grew by, for each of %s keys. First the key is stored under its own name, then under that which the limiter gives it.\n\n",
		grouped(float64(r.settings.storedKeys)))
	p.table(r.bytesInRedis())

	p.printf("\n## Allocations\n\n")
	p.printf("Those of the whole client for one allowed decision, the redis client included, with one caller.\n\n")
	p.table(r.allocations())
	return p.err
}

// lines are what each peer did, as a multiple of what the baseline did.
func (t *throughput) lines() [][]string {
	head := []string{"peer"}
	rows := [][]string{append(head, t.columns...)}
	for i, peer := range t.peers {
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

// writeElsewhere writes what came of the contests that are not held beside the Redis that is asked, or by more than one process.
func (r *report) writeElsewhere(p *printer) {
	p.printf("\n## Farther away, on a cluster, and in a fleet\n\n")
	p.printf("Multiples of what %s did in the same rounds, as above.\n", baseline)
	each := func(title string, all []throughput) {
		for _, t := range all {
			p.printf("\n### %s: %s\n\n", title, strings.ToLower(t.work.title[:1])+t.work.title[1:])
			p.table(t.lines())
		}
	}
	if r.far == nil {
		p.printf("\nFarther away and on a cluster nothing was measured, for there is no redis-server in PATH.\n")
	}
	each(fmt.Sprintf("%v away, behind a toxiproxy", distance), r.far)
	each("A cluster of 3 masters", r.onCluster)
	each(fmt.Sprintf("Processes with %s each", count(memberCallers, "caller")), r.processes)
}

// writeGrowth writes what came of work that grows.
func (r *report) writeGrowth(p *printer) {
	p.printf("\n## As the work grows\n\n")
	p.printf("Multiples of what %s did in the same rounds, as above; and script calls for each decision.\n", baseline)
	if r.charts {
		p.printf("\n![Decisions a second against the number of callers](%s)\n", throughputChart)
		p.printf("\n![Script calls for each decision against the number of callers](%s)\n", callsChart)
	}
	for _, t := range r.byCallers {
		p.printf("\n### Callers: %s\n\n", strings.ToLower(t.work.title[:1])+t.work.title[1:])
		p.table(t.lines())
		p.printf("\nScript calls for each decision:\n\n")
		p.table(t.perDecision(t.calls, "%.3f"))
	}
	p.printf("\n### Keys\n\nAsked for in random order by %s.\n\n", count(growthCallers, "caller"))
	p.table(r.byKeys.lines())
	p.printf("\n### Limits\n\nThe limit of one key in a second, asked for by %s, so that what is above it is denied, every time by Redis.\n\n",
		count(growthCallers, "caller"))
	p.table(r.byLimits.lines())
}

func (r *report) timesInRedis() [][]string {
	head := []string{"script"}
	for _, column := range r.serverTimes.columns {
		head = append(head, column, "aim")
	}
	rows := [][]string{head}
	for i, script := range r.serverTimes.scripts {
		row := []string{script.name}
		for column, aim := range []aim{script.allowed, script.denied} {
			m := r.serverTimes.multiples[i][column]
			row = append(row, number(m), aim.against(m))
		}
		rows = append(rows, row)
	}
	last := []string{baseline + ", µs"}
	for _, micros := range r.serverTimes.base {
		last = append(last, number(micros), "")
	}
	return append(rows, last)
}

func (r *report) logLines() [][]string {
	rows := [][]string{append(append([]string{"grants", "held"}, logColumns...), "bytes", "aim")}
	for _, line := range r.logs.lines {
		row := []string{grouped(float64(line.length)), grouped(line.held)}
		for _, micros := range line.micros {
			row = append(row, number(micros))
		}
		var bytes aim
		if line.length == logMemoryAt {
			bytes = logMemory
		}
		rows = append(rows, append(row, grouped(line.bytes), bytes.against(line.bytes)))
	}
	return rows
}

func (r *report) logOuts() [][]string {
	rows := [][]string{{"out", "median", "aim", "longest"}}
	for _, out := range r.logs.outs {
		what := "all"
		switch {
		case out.late > 0:
			what = fmt.Sprintf("all but %d", out.late)
		case out.expired:
			what = "all, and expired"
		}
		rows = append(rows, []string{what, number(out.median), longestCall.against(out.median), number(out.most)})
	}
	return rows
}

func (r *report) bytesInRedis() [][]string {
	rows := [][]string{{"plan", "own name", "aim", "as stored"}}
	for _, s := range r.storages {
		rows = append(rows, []string{s.name, grouped(s.bare), s.aim.against(s.bare), grouped(s.named)})
	}
	return rows
}

func (r *report) allocations() [][]string {
	rows := [][]string{{"peer", "allocations", "bytes"}}
	for i, peer := range r.peers {
		rows = append(rows, []string{peer.name, grouped(r.memories[i].allocs), grouped(r.memories[i].bytes)})
	}
	return rows
}

// against writes an aim beside a figure, and whether that misses it.
func (a aim) against(figure float64) string {
	switch {
	case a == 0:
		return ""
	case figure > float64(a):
		return "≤ " + number(float64(a)) + ", missed"
	default:
		return "≤ " + number(float64(a))
	}
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

// entries writes how many entries of a log there are.
func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return grouped(float64(n)) + " entries"
}

// grouped writes a whole number in groups of three digits; what is not known is a dash.
func grouped(f float64) string {
	if math.IsNaN(f) {
		return "–"
	}
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
