package main

import (
	"fmt"
	"math"
	"slices"
)

// goal is the least that a peer of ours is meant to do in a work, as a multiple of what another peer does.
type goal struct {
	work  work
	peer  string
	than  string
	least map[int]float64 // by the number of callers
}

// goals are those that are set.
func goals() []goal {
	return []goal{
		{manyAllowed, oneKey, baseline, map[int]float64{1: 0.65, 16: 1.2, 64: 2, 256: 2.4}},
		{manyAllowed, oneKey, rueidisOf(gcra()).name, map[int]float64{64: 1.2}},
		{manyAllowed, byDefault, baseline, map[int]float64{1: 0.65, 16: 1.3, 64: 3, 256: 3}},
		{hotAllowed, byDefault, baseline, map[int]float64{1: 0.65, 16: 2, 64: 6, 256: 16}},
		{hotDenied, byDefault, baseline, map[int]float64{1: 100, 16: 50, 64: 50, 256: 50}},
		{hotAllowed, leased, baseline, map[int]float64{1: 40, 16: 10, 64: 10, 256: 10}},
	}
}

// goalLines are the goals beside what was measured.
func (r *report) goalLines() [][]string {
	rows := [][]string{{"work", "peer", "than"}}
	for _, callers := range r.settings.callers {
		rows[0] = append(rows[0], count(callers, "caller"), "aim")
	}
	for _, g := range goals() {
		at := slices.IndexFunc(r.throughputs, func(t throughput) bool { return t.work.title == g.work.title })
		if at < 0 {
			continue
		}
		t := r.throughputs[at]
		index := func(name string) int { return slices.IndexFunc(t.peers, func(p peer) bool { return p.name == name }) }
		peer, than := index(g.peer), index(g.than)
		if peer < 0 || than < 0 {
			continue
		}
		row := []string{g.work.title, g.peer, g.than}
		for column, callers := range r.settings.callers {
			least, isSet := g.least[callers]
			if !isSet {
				row = append(row, "", "")
				continue
			}
			m := t.multiples[peer][column] / t.multiples[than][column]
			aimed := "≥ " + number(least)
			if m < least {
				aimed += ", missed"
			}
			row = append(row, number(m), aimed)
		}
		rows = append(rows, row)
	}
	return rows
}

// perDecision is a table of what each peer needed for a decision, a column for each number of callers.
func (t *throughput) perDecision(of [][]float64, format string) [][]string {
	rows := [][]string{append([]string{"peer"}, t.columns...)}
	for i, peer := range t.peers {
		row := []string{peer.name}
		for _, figure := range of[i] {
			row = append(row, orDash(figure, format))
		}
		rows = append(rows, row)
	}
	return rows
}

func orDash(f float64, format string) string {
	if math.IsNaN(f) {
		return "–"
	}
	return fmt.Sprintf(format, f)
}
