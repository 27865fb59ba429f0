package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/go-ration/ration/cmd/ration/internal/simulate"
)

const simulateLong = `Simulate puts a trace of arrivals to several plans, each on its own, and shows
what they would have let through: decided by the scripts that Redis runs, in an
embedded Redis whose clock is set to the time of each arrival. It needs no
server, and waits for nothing.

TRACE is
  boundary    50 arrivals a second for 3 s, and besides them one in each
              millisecond from 0.9 s to 1.1 s, where two windows meet
  twobursts   100 arrivals at 0.99 s and 100 at 1.01 s
  FILE        a line for each arrival: its time in seconds, such as 0.99, exact
              to the microsecond, and after a space its cost, a whole number of
              units, 1 if left out. The lines may be in any order. Empty lines
              and those that begin with # are left out. At most 1000000
              arrivals, 2000000000 s and 2^52 units. A file called boundary is
              ./boundary
  -           the same from the standard input

Second 0 of a trace is the start of a day, hour and minute on the server's
clock, in UTC. All figures count units, an arrival that costs 3 as 3; an arrival
that costs more than a plan can ever grant is denied. A peak is the most units
that were admitted in any span of that length, wherever it begins; what happens
as it ends is not in it. The two lengths suit plans per second. If the trace has
at most 10 different instants, what was admitted at each is shown too.

The embedded Redis takes milliseconds for a decision of a sliding log of tens of
thousands.

--json prints an array with an object for each plan: plan, admitted, denied,
peak_100ms, peak_1s and by_instant, an array of objects with seconds and
admitted, which is empty for a trace of more than 10 instants.

Without --plan it tries fixed-window 100/1s, sliding-window 100/1s, sliding-log
100/1s, and token-bucket 100/s and gcra 100/s, each with burst 100 and burst 10.

` + planHelp

// simulatePlans are tried if --plan names no other.
var simulatePlans = []string{
	"fixed-window 100/1s",
	"sliding-window 100/1s",
	"sliding-log 100/1s",
	"token-bucket 100/s burst 100",
	"token-bucket 100/s burst 10",
	"gcra 100/s burst 100",
	"gcra 100/s burst 10",
}

// simulateFlags is what the command simulate is told.
type simulateFlags struct {
	trace string
	plans []string
	json  bool
	plot  string
}

func newSimulate() *cobra.Command {
	var flags simulateFlags
	command := &cobra.Command{
		Use:   "simulate",
		Short: "Compare what plans let through of a trace of arrivals",
		Long:  simulateLong,
		Example: `  ration simulate
  ration simulate --trace twobursts --plan "fixed-window 100/1s aligned"
  seq 0 0.004 10 | ration simulate --trace - --plot plans.svg`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runSimulate(c, flags) },
	}
	f := command.Flags()
	f.StringVar(&flags.trace, "trace", simulate.Boundary, "the `trace`: boundary, twobursts, a file, or - for the standard input")
	f.StringArrayVar(&flags.plans, "plan", nil, "a `plan` to try instead of those above; may be given several times")
	f.BoolVar(&flags.json, "json", false, "print an array of JSON, one object for each plan")
	f.StringVar(&flags.plot, "plot", "", "draw arrivals and admissions over time to a `file`, .svg or .png")
	return command
}

func runSimulate(c *cobra.Command, flags simulateFlags) error {
	texts := flags.plans
	if len(texts) == 0 {
		texts = simulatePlans
	}
	plans, err := parsePlans(texts)
	if err != nil {
		return err
	}
	plot, err := newPlot(flags.plot, len(plans))
	if err != nil {
		return err
	}
	defer plot.discard()
	name, trace, err := readTrace(c, flags.trace)
	if err != nil {
		return err
	}
	outcomes, err := decideAll(c, plans, len(trace), trace.Decide)
	if err != nil {
		return err
	}
	if err := plot.draw(name, trace, outcomes); err != nil {
		return err
	}
	if flags.json {
		return writeJSON(c.OutOrStdout(), simulateJSON(outcomes))
	}
	_, err = io.WriteString(c.OutOrStdout(), simulateReport(name, trace, outcomes))
	return err
}

// readTrace finds the trace that --trace says, and what to call it.
func readTrace(c *cobra.Command, path string) (name string, trace simulate.Trace, err error) {
	if trace, found := simulate.Named(path); found {
		return path, trace, nil
	}
	if path == "" {
		return "", nil, errors.New("no trace to read: name one, or - for the standard input")
	}
	name = inputName(path)
	file, err := openInput(c.Context(), c.InOrStdin(), path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("%s: %w; the traces with a name are %s and %s", name, err, simulate.Boundary, simulate.TwoBursts)
	}
	if err == nil {
		defer func() { _ = file.Close() }()
		trace, err = simulate.Read(file)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", name, err)
	}
	return name, trace, nil
}
