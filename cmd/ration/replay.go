package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/cmd/ration/internal/accesslog"
	"github.com/go-ration/ration/cmd/ration/internal/replay"
)

const replayLong = `Replay decides the requests of a web server's access log, in the order of their
times, as a limit would have decided them: by the scripts that Redis runs, in an
embedded Redis whose clock is set to the time of each request. It needs no
server, and a log of days takes seconds.

LOG is in the common or the combined format of Apache and nginx, plain or
compressed by gzip; - is the standard input. A line that is not understood is
counted and left out.

Each plan is tried on its own; with --all they are tried as one, all or nothing:
what one of them denies is charged to none.

` + planHelp + helpOfSeveral

// replayFlags is what the command replay is told besides the log.
type replayFlags struct {
	by    string
	plans []string
	all   bool
	top   int
	json  bool
}

func newReplay() *cobra.Command {
	var flags replayFlags
	command := &cobra.Command{
		Use:   `replay LOG --plan "PLAN"...`,
		Short: "Show what a limit would have done to the requests of an access log",
		Long:  replayLong,
		Example: `  ration replay access.log --plan "token-bucket 1/2s burst 5"
  ration replay a.log --plan "rate: gcra 1/s burst 5 + day: fixed-window 60/1d"
  zcat access.log.*.gz | ration replay - --by path --plan "fixed-window 100/1m"`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return errors.New("no log to read: name one, or - for the standard input")
			case 1:
				return nil
			default:
				return fmt.Errorf("%d logs to read: name one, or put them together on the standard input", len(args))
			}
		},
		RunE: func(c *cobra.Command, args []string) error { return runReplay(c, args[0], flags) },
	}
	f := command.Flags()
	f.StringVar(&flags.by, "by", string(replay.ByIP), "the `field` that the quota is charged to: ip, path, user-agent or method")
	f.StringArrayVar(&flags.plans, "plan", nil, "a `plan` to try; may be given several times")
	f.BoolVar(&flags.all, "all", false, "try the plans together, all or nothing")
	f.IntVar(&flags.top, "top", 10, "`how many` of the keys denied most to show")
	f.BoolVar(&flags.json, "json", false, "print an array of JSON, one object for each plan")
	return command
}

// parse checks the flags.
func (f replayFlags) parse() (by replay.By, plans []ration.Plan, err error) {
	by = replay.By(f.by)
	switch {
	case !by.Valid():
		return "", nil, fmt.Errorf("--by %q: want ip, path, user-agent or method", f.by)
	case f.top < 0:
		return "", nil, fmt.Errorf("--top %d: want 0 or more", f.top)
	case len(f.plans) == 0:
		return "", nil, errors.New(`no plan to try: say one, such as --plan "token-bucket 1/2s burst 5"`)
	}
	plans, err = parsePlans(f.plans)
	if err == nil && f.all {
		plans, err = together(plans)
	}
	for _, plan := range plans {
		all, _ := plan.(ration.MultiPlan)
		for _, one := range all {
			if err == nil && one.Scope == ration.PerTag {
				err = fmt.Errorf("--plan %q: %s is per-tag, and the keys of a log have no hash tags", plan, one.Name)
			}
		}
	}
	return by, plans, err
}

// together makes one plan of several.
func together(plans []ration.Plan) ([]ration.Plan, error) {
	var all ration.MultiPlan
	if len(plans) == 1 {
		if _, isMulti := plans[0].(ration.MultiPlan); isMulti {
			return plans, nil
		}
	}
	for i, plan := range plans {
		if _, isMulti := plan.(ration.MultiPlan); isMulti {
			return nil, fmt.Errorf("--all: --plan %q is several plans already, all or nothing: give it alone", plan)
		}
		all = append(all, ration.NamedPlan{Name: "plan" + strconv.Itoa(i+1), Plan: plan})
	}
	if _, err := ration.ParsePlan(all.String()); err != nil {
		return nil, fmt.Errorf("--all: %s", withoutName(err))
	}
	return []ration.Plan{all}, nil
}

// textOf is a plan as the report names it. Those that were put together have no names there.
func textOf(plan ration.Plan) string {
	all, isMulti := plan.(ration.MultiPlan)
	if !isMulti {
		return plan.String()
	}
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = one.Plan.String()
	}
	return strings.Join(texts, " + ")
}

func runReplay(c *cobra.Command, path string, flags replayFlags) error {
	by, plans, err := flags.parse()
	if err != nil {
		return err
	}
	name := inputName(path)
	traffic, err := readLog(c.Context(), c.InOrStdin(), path, by)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	outcomes, err := decideAll(c, plans, traffic.Requests, traffic.Decide)
	if err != nil {
		return err
	}
	if flags.all {
		outcomes[0].Plan = textOf(plans[0])
	}
	if flags.json {
		if _, err := io.WriteString(c.ErrOrStderr(), malformedReport(traffic.Malformed)); err != nil {
			return err
		}
		return writeJSON(c.OutOrStdout(), replayJSON(outcomes, traffic.Malformed.Count, flags.top))
	}
	out := c.OutOrStdout()
	_, err = io.WriteString(out, replayReport(name, by, traffic, outcomes, flags.top, widthOf(out)))
	return err
}

func readLog(ctx context.Context, in io.Reader, path string, by replay.By) (*replay.Traffic, error) {
	log, err := openInput(ctx, in, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	lines, err := accesslog.NewReader(log)
	if err != nil {
		return nil, err
	}
	traffic, err := replay.Read(lines, by)
	switch {
	case err != nil:
		return nil, err
	case traffic.Requests == 0 && traffic.Malformed.Count == 0:
		return nil, errors.New("the log is empty")
	case traffic.Requests == 0:
		first := traffic.Malformed.First[0]
		return nil, fmt.Errorf("no line is in the common or the combined format; line %d: %w", first.Number, first.Err)
	}
	return traffic, nil
}

// planJSON is what --json prints of a plan.
type planJSON struct {
	Plan      string    `json:"plan"`
	Admitted  int       `json:"admitted"`
	Denied    int       `json:"denied"`
	Malformed int       `json:"malformed"`
	Top       []keyJSON `json:"top"`
}

type keyJSON struct {
	Key    string `json:"key"`
	Denied int    `json:"denied"`
}

func replayJSON(outcomes []replay.Outcome, malformed, top int) []planJSON {
	plans := make([]planJSON, 0, len(outcomes))
	for _, o := range outcomes {
		p := planJSON{Plan: o.Plan, Admitted: o.Admitted, Denied: o.Denied, Malformed: malformed, Top: []keyJSON{}}
		for _, d := range o.DeniedKeys[:min(top, len(o.DeniedKeys))] {
			p.Top = append(p.Top, keyJSON{Key: d.Key, Denied: d.Count})
		}
		plans = append(plans, p)
	}
	return plans
}
