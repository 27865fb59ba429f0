package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/go-ration/ration/cmd/ration/internal/drill"
)

// drillTitle says what is broken, and under what load.
func drillTitle(config drill.Config, victim string) string {
	return ansi.Wordwrap(fmt.Sprintf("%v, shared by %s, which are offered %s/s\nthrough %s\ntimeout %v, policy %s\n\n",
		config.Plan, count(config.Instances, "instance"), number(config.Offered()), victim, config.Timeout, config.Policy), columns, "")
}

// drillLines prints a line for each second that is over.
type drillLines struct {
	out     io.Writer
	printed int
}

// print prints the seconds that are over by now.
func (l *drillLines) print(r drill.Run) {
	if l.printed == 0 {
		_, _ = fmt.Fprintf(l.out, "  s  %-8s%8s%9s%9s%10s%7s%7s%7s%7s\n",
			"Redis", "offered", "admitted", "by redis", "by "+string(r.Policy), "p50 ms", "p99 ms", "max ms", "excess")
	}
	for time.Duration(l.printed+1)*time.Second <= r.End() {
		l.line(r, time.Duration(l.printed+1)*time.Second)
	}
}

// printRest prints the seconds that are left when the run has ended, the last of them a part of one.
func (l *drillLines) printRest(r drill.Run) {
	l.print(r)
	if r.End()-time.Duration(l.printed)*time.Second >= leastShown {
		l.line(r, r.End())
	}
}

// leastShown is how much of a last second has a line: a run takes some milliseconds longer than its schedule.
const leastShown = 50 * time.Millisecond

func (l *drillLines) line(r drill.Run, until time.Duration) {
	from := time.Duration(l.printed) * time.Second
	l.printed++
	t := r.Tally(from, until)
	_, _ = fmt.Fprintf(l.out, "%3d  %-8s%8d%9d%9d%10d%7s%7s%7s%7d\n", l.printed, r.StateIn(from, until),
		t.Offered, t.Admitted, t.ByRedis, t.ByPolicy,
		drill.InMillis(t.P50), drill.InMillis(t.P99), drill.InMillis(t.Max), r.Excess(until))
}

// drillReport is the phases of a run, its bounds, and what they mean.
func drillReport(r drill.Run, bounds []drill.Bound) string {
	var b strings.Builder
	b.WriteString("\n" + phaseTable(r) + drillLegend(r) + "\n" + boundTable(bounds) + boundLegend + "\n")
	for _, text := range append([]string{verdict(bounds)}, drillRemarks(r, bounds)...) {
		b.WriteString(ansi.Wordwrap(text, columns, "") + "\n")
	}
	return b.String()
}

func phaseTable(r drill.Run) string {
	table := newTable("Redis", "offered", "admitted", "of quota", "by redis", "by "+string(r.Policy), "p99 ms")
	for _, p := range r.Phases {
		t := r.Tally(p.From, p.Until)
		ofQuota := "–"
		if quota := r.Rate * p.Length().Seconds(); quota >= 1 {
			ofQuota = fmt.Sprintf("%.0f%%", 100*float64(t.Admitted)/quota)
		}
		table.Row(string(p.State)+", "+drill.Seconds(p.Length()),
			strconv.FormatInt(t.Offered, 10), strconv.FormatInt(t.Admitted, 10), ofQuota,
			strconv.FormatInt(t.ByRedis, 10), strconv.FormatInt(t.ByPolicy, 10), drill.InMillis(t.P99))
	}
	return render(table)
}

// policyMeans says what each policy does.
var policyMeans = map[drill.Policy]string{
	drill.Local:  "by each instance for its share of the quota",
	drill.Open:   "all are admitted",
	drill.Closed: "all are denied",
}

// drillLegend says what the columns count.
func drillLegend(r drill.Run) string {
	return fmt.Sprintf(`
by redis         decided by Redis
%-17sdecided without it: %s
p50, p99, max    how long callers waited for a decision
excess           admitted by then beyond what the plan allows since the start
of quota         admitted, where 100%% is what the plan's rate earns
`, "by "+string(r.Policy), policyMeans[r.Policy])
}

func boundTable(bounds []drill.Bound) string {
	table := newTable("bound", "measured", "allowed", "")
	for _, b := range bounds {
		table.Row(b.Name, b.Measured, b.Allowed, string(b.Status))
	}
	return render(table)
}

const boundLegend = `
waited           not counted in the first second of an outage, while breakers
                 open; later only those wait who look whether Redis is back
all back         until the last instance has its decisions from Redis again
`

// verdict says in a sentence what the bounds show.
func verdict(bounds []drill.Bound) string {
	switch judged, broken := tallyBounds(bounds); {
	case broken > 0:
		return fmt.Sprintf("%d of the %s did not hold.", broken, count(judged, "bound"))
	case judged == 1:
		return "The bound held."
	default:
		return fmt.Sprintf("All %d bounds held.", judged)
	}
}

// drillRemarks are what else the reader should know of this run.
func drillRemarks(r drill.Run, bounds []drill.Bound) []string {
	var remarks []string
	remark := func(format string, args ...any) { remarks = append(remarks, "\n"+fmt.Sprintf(format, args...)) }
	told := make(map[string]bool)
	for _, b := range bounds {
		if b.Why != "" && !told[b.Why] {
			told[b.Why] = true
			remark("Not judged where %s.", b.Why)
		}
	}
	if stall := r.LongestStall(); stall > 0 {
		remark("This machine was busy with other things at times, for %s at the longest. The bounds leave that out.", drill.Millis(stall))
	}
	if r.Late > 0 {
		remark("%s could not be offered: too many before them took too long for this load.", count(int(r.Late), "request"))
	}
	if r.Errors > 0 {
		remark("%s got no decision, the last because: %s", count(int(r.Errors), "request"), withoutName(r.LastError))
	}
	if r.Leftover != nil {
		remark("The key could not be deleted, and expires by itself: %s", withoutName(r.Leftover))
	}
	return remarks
}
