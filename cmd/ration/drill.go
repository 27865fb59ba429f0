package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-ration/ration/cmd/ration/internal/drill"
)

const drillLong = `Drill shows what an outage of Redis does to a service behind a limit. A fleet of
instances, each with connections of its own, offers more requests than the quota
they share allows, while Redis is broken in three ways, and mended after each:

  stopped   it hangs: connections stay, and nothing is answered
  killed    connections break, and new ones are refused; later it is started
            again, with what it had stored
  slow      each answer comes later, by --latency

Without --redis, drill starts a redis-server of its own, found in PATH, and
really stops and kills it. With --redis it breaks nothing but its own
connections, by a proxy in this process: the Redis itself, and whoever else uses
it, notices no more than a fleet that comes and goes. URL may be any that the
command demo takes, but for unix://. A cluster, or Sentinel and its servers, are
broken all at once.

A line a second shows what was admitted, how many decisions Redis made and how
many the failure policy did (--policy), how long decisions took, and the excess:
what was admitted by then beyond all that the plan allows since the start. Time
goes by the clock of this process, since that of Redis is not to be had in an
outage; plans whose windows are those of the clock want both clocks to agree.

At the end each bound is shown that an outage has to keep to, and whether it
did. The exit status is 0 only if all held that are judged. Ctrl-C ends the run
early, and still prints what there is. The run takes 6.75 phases, 27 s of 4 s
each.

` + planHelp

// drillFlags is what the command drill is told.
type drillFlags struct {
	plan, redis, policy, plot string
	drill                     drill.Config // but for the plan, the policy and the Redis
}

func newDrill() *cobra.Command {
	var flags drillFlags
	command := &cobra.Command{
		Use:   "drill",
		Short: "Break Redis under a fleet, and see whether the quota holds",
		Long:  drillLong,
		Example: `  ration drill
  ration drill --policy open --plot outage.svg
  ration drill --redis redis://localhost:6379 --phase 10s --timeout 25ms`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDrill(c, flags) },
	}
	f := command.Flags()
	f.StringVar(&flags.plan, "plan", "token-bucket 100/s burst 20", "the `plan` that the fleet shares")
	f.StringVar(&flags.redis, "redis", "", "`URL` of the Redis to use (default a redis-server that is started)")
	f.IntVar(&flags.drill.Instances, "instances", 8, "`how many` instances the fleet has")
	f.Float64Var(&flags.drill.Load, "load", 3, "offered requests, as a `multiple` of the plan's rate")
	f.DurationVar(&flags.drill.Timeout, "timeout", 10*time.Millisecond, "how long a decision may wait for Redis")
	f.StringVar(&flags.policy, "policy", string(drill.Local), "what decides without Redis: `local`, open or closed")
	f.DurationVar(&flags.drill.Phase, "phase", 4*time.Second, "how long Redis is broken in each way, and healthy after that; some bounds are judged only above 2s")
	f.DurationVar(&flags.drill.Latency, "latency", 200*time.Millisecond, "how much later answers come while Redis is slow")
	f.StringVar(&flags.plot, "plot", "", "draw admissions over time to a `file`, .svg or .png")
	return command
}

func runDrill(c *cobra.Command, flags drillFlags) (err error) {
	config := flags.drill
	if config.Plan, err = parsePlan(flags.plan); err != nil {
		return err
	}
	if config.Policy, err = drill.ParsePolicy(flags.policy); err != nil {
		return fmt.Errorf("--policy %w", err)
	}
	// What is wrong with the flags shows before a server is started.
	if err := config.Check(); err != nil {
		return err
	}
	plot, err := newPlot(flags.plot, 1)
	if err != nil {
		return err
	}
	defer plot.discard()
	victim, err := openVictim(c.Context(), flags.redis, config.Latency)
	if err != nil {
		return err
	}
	defer victim.close()
	config.NewRedis, config.Break = victim.newClient, victim.set
	d, err := drill.New(config)
	if err != nil {
		return err
	}
	defer d.Close()

	out := c.OutOrStdout()
	if _, err := io.WriteString(out, drillTitle(config, victim.name)); err != nil {
		return err
	}
	lines := drillLines{out: out}
	run, err := d.Run(c.Context(), lines.print)
	if err != nil {
		return err
	}
	lines.printRest(run)
	bounds, err := run.Bounds()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, drillReport(run, bounds)); err != nil {
		return err
	}
	if err := plot.drawDrill(run); err != nil {
		return err
	}
	return judgeDrill(bounds)
}

var errBroken = errors.New("the outage broke bounds")

// judgeDrill is nil only if all bounds held that are judged.
func judgeDrill(bounds []drill.Bound) error {
	judged, broken := tallyBounds(bounds)
	if broken > 0 {
		return fmt.Errorf("%w: %d of %d", errBroken, broken, judged)
	}
	return nil
}

// tallyBounds counts the bounds that are judged, and of those the ones that did not hold.
func tallyBounds(bounds []drill.Bound) (judged, broken int) {
	for _, b := range bounds {
		switch b.Status {
		case drill.Broken:
			broken++
			judged++
		case drill.Held:
			judged++
		case drill.NotJudged:
		}
	}
	return judged, broken
}
