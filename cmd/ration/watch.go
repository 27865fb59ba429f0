package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-ration/ration/cmd/ration/internal/fleet"
)

// watch shows a fleet while it runs.
type watch struct {
	fleet    *fleet.Fleet
	duration time.Duration // of the run, if nothing ends it early
	title    string
	in       io.Reader
	out      io.Writer
}

func (w watch) run(ctx context.Context) (fleet.Result, error) {
	if isTerminal(w.out) {
		return w.live(ctx)
	}
	return w.lines(ctx)
}

// lines prints a line a second.
func (w watch) lines(ctx context.Context) (fleet.Result, error) {
	_, _ = fmt.Fprintf(w.out, "%s\n", w.title)
	ended := make(chan struct{})
	var result fleet.Result
	var err error
	go func() {
		defer close(ended)
		result, err = w.fleet.Run(ctx)
	}()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var before fleet.Tally
	for second := 1; ; second++ {
		if w.isLast(second) {
			ticker.Stop()
		}
		running := true
		select {
		case <-ended:
			running = false
		case <-ticker.C:
		}
		now := total(w.fleet.Now())
		if running || now.Offered > before.Offered {
			_, _ = fmt.Fprintf(w.out, "%3ds: %d offered, %d admitted, %d denied%s\n", second,
				now.Offered-before.Offered, now.Admitted-before.Admitted, now.Denied-before.Denied,
				errorsIn(now.Errors-before.Errors))
		}
		if !running {
			return result, err
		}
		before = now
	}
}

// isLast says whether the run ends with its n-th second, or with what little it takes longer.
func (w watch) isLast(n int) bool { return time.Duration(n)*time.Second >= w.duration }

func errorsIn(n int64) string {
	if n == 0 {
		return ""
	}
	return ", " + count(int(n), "error")
}

func total(tallies []fleet.Tally) (all fleet.Tally) {
	for _, t := range tallies {
		all.Add(t)
	}
	return all
}
