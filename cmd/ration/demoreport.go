package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/go-ration/ration/cmd/ration/internal/fleet"
)

// demoReport is the table of a run, and what it means.
func demoReport(config fleet.Config, r fleet.Result) string {
	var b strings.Builder
	b.WriteString("\n" + demoTable(r) + "\n")
	fmt.Fprintf(&b, "limit:   the most that the plan can let through in the %v of this run\n", seconds(r.Span))
	b.WriteString("excess:  let through beyond what the plan guarantees\n")
	if r.P50 > 0 {
		fmt.Fprintf(&b, "latency: of a decision, p50 %v, p99 %v\n", r.P50, r.P99)
	}
	b.WriteString("\n" + ansi.Wordwrap(conclusion(config, r), columns, "") + "\n")
	b.WriteString(remarks(r))
	return b.String()
}

// columns is how wide sentences are printed.
const columns = 78

func demoTable(r fleet.Result) string {
	headers := []string{"instance", "offered", "admitted", "denied", "errors", "unshared: admitted", "denied"}
	const errors = 4 // the column that is there only if it is not all zeros
	cut := func(row []string) []string {
		if r.All.Errors == 0 {
			return slices.Delete(row, errors, errors+1)
		}
		return row
	}
	table := newTable(cut(headers)...)
	row := func(name string, t fleet.Tally) {
		table.Row(cut(cells(name, t.Offered, t.Admitted, t.Denied, t.Errors, t.AloneAdmitted, t.AloneDenied))...)
	}
	for n, t := range r.Instances {
		row(strconv.Itoa(n+1), t)
	}
	row("all", r.All)
	total := func(name string, shared, alone int64) {
		table.Row(cut([]string{name, "", strconv.FormatInt(shared, 10), "", "", strconv.FormatInt(alone, 10), ""})...)
	}
	total("limit", r.Limit, r.Limit)
	total("excess", r.Excess, r.AloneExcess())
	return render(table)
}

// conclusion says in a sentence what the table shows.
func conclusion(config fleet.Config, r fleet.Result) string {
	sentence := fmt.Sprintf("%s sharing one quota let %s through, where %d are allowed; ",
		count(config.Instances, "instance"), count(int(r.All.Admitted), "caller"), r.Limit)
	if r.Excess > 0 {
		sentence = fmt.Sprintf("The quota did not hold: %d of %s let through by %s were beyond what it guarantees; ",
			r.Excess, count(int(r.All.Admitted), "caller"), count(config.Instances, "instance"))
	}
	sentence += fmt.Sprintf("unshared, with a limiter in each instance, it would have been %d", r.All.AloneAdmitted)
	if r.AloneExcess() > 0 {
		sentence += fmt.Sprintf(", %.1f times as many as allowed", float64(r.All.AloneAdmitted)/float64(r.Limit))
	}
	return sentence + "."
}

// remarks are what else the reader should know of this run.
func remarks(r fleet.Result) string {
	var b strings.Builder
	remark := func(format string, args ...any) {
		b.WriteString("\n" + ansi.Wordwrap(fmt.Sprintf(format, args...), columns, "") + "\n")
	}
	if r.All.Denied == 0 && r.All.Errors == 0 && r.Late == 0 {
		remark("Nothing had to be denied, since no more was offered than is allowed: try a higher load.")
	}
	if r.Late > 0 {
		remark("%s could not be offered: decisions, one after the other in each instance, took too long for this load.",
			count(int(r.Late), "request"))
	}
	if r.All.Errors > 0 {
		remark("%s got no decision, the last because: %s", count(int(r.All.Errors), "request"), withoutName(r.LastError))
	}
	if r.Untimed > 0 {
		remark("%s could not be audited: the server's time was not to be had.", count(int(r.Untimed), "admission"))
	}
	if r.Leftover != nil {
		remark("The key could not be deleted, and expires by itself: %s", withoutName(r.Leftover))
	}
	return b.String()
}

// seconds is a span of time as people say it.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s" }
