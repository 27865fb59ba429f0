package main

import (
	"bytes"
	"os"
	"path/filepath"
)

// The files that a report is written to, in the directory that is given.
const (
	reportFile      = "BENCHMARKS.md"
	throughputChart = "docs/throughput.svg"
	callsChart      = "docs/scriptcalls.svg"
)

// writeFiles writes the report, and its charts.
func (r *report) writeFiles(dir string) error {
	var text bytes.Buffer
	if err := r.write(&text); err != nil {
		return err
	}
	rates, err := drawChart(perSecond, r.byCallers, func(t *throughput) [][]float64 { return t.rates })
	if err != nil {
		return err
	}
	calls, err := drawChart("script calls for each decision", r.byCallers, func(t *throughput) [][]float64 { return t.calls })
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{reportFile: text.Bytes(), throughputChart: rates, callsChart: calls} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
