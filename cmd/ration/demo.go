package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/go-ration/ration/cmd/ration/internal/embedded"
	"github.com/go-ration/ration/cmd/ration/internal/fleet"
	"github.com/go-ration/ration/cmd/ration/internal/redisurl"
)

const demoLong = `Demo lets a fleet of instances, each with connections of its own, offer more
requests than the quota they share allows, and shows how many callers each let
through. Beside it, the same requests are put to limiters that are not shared:
one in the memory of every instance, with the whole quota each.

Without --redis an embedded Redis is used. --redis takes the URL of

  redis://user:password@host:6379/0      one server; if it says that it is of a
                                         cluster, that cluster
  rediss://…, unix:///path               the same, through TLS or a socket
  redis://host:26379?master_name=main    the master that Sentinel names
  redis://host:6379?addr=host2:6379      a cluster, by some of its servers

Every run counts under a key of its own, and deletes that at its end.

The exit status is 0 only if the excess is 0: no admission was beyond what the
plan guarantees, by the clock of the Redis that holds the key, read before and
after each decision. Ctrl-C ends the run early, and still prints the table.

` + planHelp

// demoFlags is what the command demo is told.
type demoFlags struct {
	plan  string
	redis string
	fleet fleet.Config // but for the plan and the Redis
}

func newDemo() *cobra.Command {
	var flags demoFlags
	command := &cobra.Command{
		Use:   "demo",
		Short: "Watch a fleet share a quota that it overloads",
		Long:  demoLong,
		Example: `  ration demo
  ration demo --plan "fixed-window 50/1s" --instances 20 --load 10
  ration demo --redis redis://localhost:6379`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDemo(c, flags) },
	}
	f := command.Flags()
	f.StringVar(&flags.plan, "plan", "token-bucket 100/s burst 20", "the `plan` that the fleet shares")
	f.StringVar(&flags.redis, "redis", "", "`URL` of the Redis to use (default an embedded one)")
	f.IntVar(&flags.fleet.Instances, "instances", 8, "`how many` instances the fleet has")
	f.Float64Var(&flags.fleet.Load, "load", 3, "offered requests, as a `multiple` of the plan's rate")
	f.DurationVar(&flags.fleet.Duration, "duration", 5*time.Second, "for how long requests are offered")
	f.DurationVar(&flags.fleet.Timeout, "timeout", time.Second, "how long a decision may take")
	f.StringVar(&flags.fleet.Key, "key", "tenant:42", "whom the quota is charged to")
	return command
}

func runDemo(c *cobra.Command, flags demoFlags) error {
	config := flags.fleet
	var err error
	if config.Plan, err = parsePlan(flags.plan); err != nil {
		return err
	}
	target, err := openRedis(c.Context(), flags.redis)
	if err != nil {
		return err
	}
	defer target.close()
	config.NewRedis = target.newClient
	f, err := fleet.New(config)
	if err != nil {
		return err
	}
	defer f.Close()

	w := watch{
		fleet:    f,
		duration: config.Duration,
		title:    fmt.Sprintf("%v, shared by %s\nthrough %s", config.Plan, count(config.Instances, "instance"), target.name),
		in:       c.InOrStdin(),
		out:      c.OutOrStdout(),
	}
	result, err := w.run(c.Context())
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c.OutOrStdout(), demoReport(config, result)); err != nil {
		return err
	}
	return judge(result)
}

// target is the Redis that a fleet counts in.
type target struct {
	name      string
	newClient func() redis.UniversalClient
	close     func()
}

// openRedis reaches the Redis of a URL; without one it starts one.
func openRedis(ctx context.Context, url string) (target, error) {
	if url == "" {
		s := embedded.New()
		return target{
			name:      "an embedded Redis",
			newClient: func() redis.UniversalClient { return s.NewClient() },
			close:     s.Close,
		}, nil
	}
	s, err := redisurl.Open(ctx, url)
	if err != nil {
		return target{}, err
	}
	return target{name: s.String(), newClient: s.NewClient, close: func() {}}, nil
}

var errExcess = errors.New("the quota was exceeded")

// judge is nil only if the quota held.
func judge(r fleet.Result) error {
	if r.Excess != 0 {
		return fmt.Errorf("%w by %d", errExcess, r.Excess)
	}
	return nil
}
