// Command bench measures how fast ration decides, beside other rate limiters, and prints a report in Markdown:
//
//	go run . -rounds 5 -for 300ms -redis redis://localhost:6379
//
// Without -redis it takes the Redis that RATION_REDIS names, or else starts a redis-server of its own. It deletes what it
// stored. With -write it also writes the report and its charts to files. A single peer is measured by go test -bench.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	var err error
	if os.Getenv(memberVariable) != "" {
		err = runMember(ctx, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// run measures as the arguments say, writes a report to out, and meanwhile tells what it does.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	s, url, dir, err := parseArgs(args, progress)
	if err != nil {
		return err
	}
	t, err := openTarget(ctx, url)
	if err != nil {
		return err
	}
	defer t.stop()
	r, err := measure(ctx, t, s, progress)
	if err != nil {
		return err
	}
	if dir == "" {
		return r.write(out)
	}
	r.charts = true
	if err := r.writeFiles(dir); err != nil {
		return err
	}
	return r.write(out)
}

func parseArgs(args []string, usage io.Writer) (s settings, url, dir string, err error) {
	s = standard()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&s.rounds, "rounds", s.rounds, "`how often` each peer is measured")
	flags.DurationVar(&s.span, "for", s.span, "how long one measurement takes")
	flags.StringVar(&url, "redis", os.Getenv("RATION_REDIS"), "`URL` of the Redis to use (default a redis-server of its own)")
	flags.StringVar(&dir, "write", "", "`directory` in which to write the report, "+reportFile+", with its charts in docs")
	if err := flags.Parse(args); err != nil {
		return s, "", "", err
	}
	switch {
	case flags.NArg() > 0:
		return s, "", "", fmt.Errorf("there is nothing to do for %q: see -help", flags.Arg(0))
	case s.rounds < 1:
		return s, "", "", errors.New("-rounds must be at least 1")
	case s.span <= 0 || s.span > longestSpan:
		return s, "", "", fmt.Errorf("-for must be more than 0 and at most %v", longestSpan)
	}
	return s, url, dir, nil
}

// longestSpan is how long plenty lasts on one key, however fast it is taken.
const longestSpan = 10 * time.Second

// measure does all there is to measure, and cleans up.
func measure(ctx context.Context, t *target, s settings, progress io.Writer) (r *report, err error) {
	b := newBenchmark(t, s, progress)
	defer func() {
		if e := b.cleanUp(); err == nil && e != nil {
			err = e
		}
	}()
	r = &report{
		when:     time.Now(),
		machine:  machine(),
		versions: versions(),
		command:  fmt.Sprintf("make bench ARGS=%q", fmt.Sprintf("-rounds %d -for %v", s.rounds, s.span)),
		settings: s,
		peers:    b.peers,
	}
	rdb := redis.NewClient(t.options)
	defer func() { _ = rdb.Close() }()
	version, err := redisVersion(ctx, rdb)
	if err != nil {
		return nil, err
	}
	r.redis = version + " " + t.place
	for _, w := range []work{hotAllowed, hotDenied, manyAllowed} {
		result, err := b.hold(ctx, b.here(w, rdb))
		if err != nil {
			return nil, err
		}
		r.throughputs = append(r.throughputs, result)
	}
	if err := b.elsewhere(ctx, r); err != nil {
		return nil, err
	}
	if r.byCallers, err = b.byCallers(ctx, rdb); err != nil {
		return nil, err
	}
	if r.byKeys, err = b.byKeys(ctx); err != nil {
		return nil, err
	}
	if r.byLimits, err = b.byLimits(ctx); err != nil {
		return nil, err
	}
	if r.serverTimes, err = b.serverTimes(ctx); err != nil {
		return nil, err
	}
	if r.logs, err = b.logs(ctx); err != nil {
		return nil, err
	}
	if r.storages, err = b.storages(ctx); err != nil {
		return nil, err
	}
	if r.memories, err = b.memories(ctx); err != nil {
		return nil, err
	}
	return r, nil
}
