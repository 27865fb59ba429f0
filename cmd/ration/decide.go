package main

import (
	"context"
	"io"
	"runtime/debug"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/go-ration/ration"
)

// decideAll decides the same requests under one plan after the other, with a progress bar where the standard error is a
// terminal. Decide decides them under one plan, and calls onDecision after each, from any goroutine.
func decideAll[Outcome any](
	c *cobra.Command, plans []ration.Plan, requests int,
	decide func(ctx context.Context, plan ration.Plan, onDecision func()) (Outcome, error),
) ([]Outcome, error) {
	// An embedded Redis makes much garbage in little memory: collecting less often takes a third of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	onDecision, finish := progress(c.ErrOrStderr(), requests*len(plans))
	defer finish()
	var outcomes []Outcome
	for _, plan := range plans {
		outcome, err := decide(c.Context(), plan, onDecision)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// progress shows on errOut, where that is a terminal, how many decisions are made: onDecision counts one, and finish takes
// the bar away.
func progress(errOut io.Writer, decisions int) (onDecision, finish func()) {
	if !isTerminal(errOut) {
		return func() {}, func() {}
	}
	bar := progressbar.NewOptions(decisions,
		progressbar.OptionSetWriter(errOut),
		progressbar.OptionSetDescription("deciding"),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish(),
	)
	return func() { _ = bar.Add(1) }, func() { _ = bar.Finish() }
}
