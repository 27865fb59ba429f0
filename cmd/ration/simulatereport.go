package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/go-ration/ration/cmd/ration/internal/simulate"
)

// simulateReport is what simulate prints for people.
func simulateReport(name string, t simulate.Trace, outcomes []simulate.Outcome) string {
	var b strings.Builder
	b.WriteString(traceTitle(name, t) + "\n\n")
	table := newTable("plan", "admitted", "denied", "peak 100 ms", "peak 1 s")
	for _, o := range outcomes {
		table.Row(cells(o.Plan, o.Admitted, o.Denied, o.Peak100ms, o.Peak1s)...)
	}
	b.WriteString(render(table))
	b.WriteString("\npeak: the most units admitted in any span of that length\n")
	instants := len(outcomes[0].ByInstant)
	for first := 0; first < instants; {
		end := first + 1
		shown := instantTable(outcomes, first, end)
		for ; end < instants; end++ {
			wider := instantTable(outcomes, first, end+1)
			if lipgloss.Width(wider) > columns {
				break
			}
			shown = wider
		}
		b.WriteString("\n" + shown)
		first = end
	}
	return b.String()
}

// instantTable is what was admitted at some of the instants of a trace.
func instantTable(outcomes []simulate.Outcome, first, end int) string {
	headers := []string{"admitted at"}
	var arrived []int64
	for _, i := range outcomes[0].ByInstant[first:end] {
		headers = append(headers, simulate.Seconds(i.At)+" s")
		arrived = append(arrived, i.Arrived)
	}
	table := newTable(headers...).Row(cells("(arrived)", arrived...)...)
	for _, o := range outcomes {
		var admitted []int64
		for _, i := range o.ByInstant[first:end] {
			admitted = append(admitted, i.Admitted)
		}
		table.Row(cells(o.Plan, admitted...)...)
	}
	return render(table)
}

// traceTitle says what a trace is.
func traceTitle(name string, t simulate.Trace) string {
	size := count(len(t), "arrival")
	if units := t.Units(); units != int64(len(t)) {
		size += " of " + count(int(units), "unit")
	}
	return fmt.Sprintf("%s: %s, from %s to %s s", printable(name, 0), size,
		simulate.Seconds(t[0].At), simulate.Seconds(t[len(t)-1].At))
}

// simulatedJSON is what --json prints of a plan.
type simulatedJSON struct {
	Plan      string        `json:"plan"`
	Admitted  int64         `json:"admitted"`
	Denied    int64         `json:"denied"`
	Peak100ms int64         `json:"peak_100ms"`
	Peak1s    int64         `json:"peak_1s"`
	ByInstant []instantJSON `json:"by_instant"`
}

type instantJSON struct {
	Seconds  json.Number `json:"seconds"`
	Admitted int64       `json:"admitted"`
}

func simulateJSON(outcomes []simulate.Outcome) []simulatedJSON {
	plans := make([]simulatedJSON, 0, len(outcomes))
	for _, o := range outcomes {
		p := simulatedJSON{
			Plan: o.Plan, Admitted: o.Admitted, Denied: o.Denied, Peak100ms: o.Peak100ms, Peak1s: o.Peak1s,
			ByInstant: []instantJSON{},
		}
		for _, i := range o.ByInstant {
			p.ByInstant = append(p.ByInstant, instantJSON{json.Number(simulate.Seconds(i.At)), i.Admitted})
		}
		plans = append(plans, p)
	}
	return plans
}
