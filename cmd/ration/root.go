package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// run runs the command and gives its exit status: 0, or 1 after an error, which it prints.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	if err := root.ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(errOut, "ration: "+explain(err))
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ration",
		Short: "Try rate limits that a fleet of services shares through Redis",
		Example: `  ration demo
  ration replay access.log --plan "token-bucket 1/2s burst 5"
  ration simulate --plot plans.svg
  ration drill --policy local`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	root.SetVersionTemplate("ration {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w (see %s --help)", err, c.CommandPath())
	})
	root.AddCommand(newDemo(), newReplay(), newSimulate(), newDrill())
	return root
}

// version is that of the module this was built from, and of Go.
func version() string {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		v = info.Main.Version
	}
	return v + " " + runtime.Version()
}

// explain is an error as the last line of a command.
func explain(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return withoutName(err)
}

// withoutName is the text of an error without the library's name, with which its errors begin: that line begins so too.
func withoutName(err error) string {
	return strings.TrimPrefix(strings.ReplaceAll(err.Error(), ": ration: ", ": "), "ration: ")
}
