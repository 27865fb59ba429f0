package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-ration/ration"
)

// planHelp says what --plan takes, below the help of a command.
const planHelp = `A plan is one of
  token-bucket 100/s burst 20          at most 20 at once, 100 a second for long
  gcra 100/s burst 20                  the same, kept as a single moment
  fixed-window 60/1m                   60 per minute, from the first request on
  fixed-window 60/1m aligned           60 per calendar minute
  fixed-window 5/15m restart-on-deny   a refused attempt starts the window again
  sliding-window 60/2h                 60 per 2 hours, the last ones fading out
  sliding-log 60/2h                    at most 60 in any 2 hours`

// helpOfSeveral follows planHelp where a plan may be several.
const helpOfSeveral = `
or several of them with names, all or nothing
  a: gcra 10/s burst 10 + b: fixed-window 1000/1d`

// parsePlan reads the text of --plan. The error shows the text with carets under the word that is wrong.
func parsePlan(text string) (ration.Plan, error) {
	plan, err := ration.ParsePlan(text)
	var misread *ration.ParseError
	if errors.As(err, &misread) {
		pointer := strings.ReplaceAll(misread.Pointer(), "\n", "\n  ")
		return nil, fmt.Errorf("--plan: %s\n  %s", misread.Reason, pointer)
	}
	if err != nil {
		return nil, fmt.Errorf("--plan %q: %s", text, withoutName(err))
	}
	return plan, nil
}

// parsePlans reads the texts of several --plan.
func parsePlans(texts []string) ([]ration.Plan, error) {
	plans := make([]ration.Plan, 0, len(texts))
	for _, text := range texts {
		plan, err := parsePlan(text)
		if err != nil {
			return nil, err
		}
		plans = append(plans, plan)
	}
	return plans, nil
}
