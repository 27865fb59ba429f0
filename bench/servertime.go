package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/redis/go-redis/v9"
)

// serverTime is how long Redis itself takes for a script call, in microseconds: the mean of n calls, sent in one pipeline so
// that Redis does little else meanwhile. It is NaN where Redis does not tell.
func serverTime(ctx context.Context, rdb *redis.Client, c scriptCall, n int) (float64, error) {
	before, err := readStats(ctx, rdb)
	if err != nil {
		return 0, err
	}
	if _, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range n {
			p.EvalSha(ctx, c.digest, []string{c.storedKey}, c.args...)
		}
		return nil
	}); err != nil {
		return 0, err
	}
	after, err := readStats(ctx, rdb)
	if err != nil {
		return 0, err
	}
	if after.calls == before.calls {
		return math.NaN(), nil
	}
	return float64(after.micros-before.micros) / float64(after.calls-before.calls), nil
}

// callStats is what Redis counted of EVALSHA since it started: calls, and the time for all of them.
type callStats struct{ calls, micros int64 }

func readStats(ctx context.Context, rdb *redis.Client) (callStats, error) {
	info, err := rdb.Info(ctx, "commandstats").Result()
	if refused(err) {
		return callStats{}, nil // which are as if nothing was called
	}
	if err != nil {
		return callStats{}, err
	}
	return parseStats(info)
}

func parseStats(info string) (callStats, error) {
	const name = "cmdstat_evalsha:"
	for line := range strings.Lines(info) {
		if !strings.HasPrefix(line, name) {
			continue
		}
		var s callStats
		if _, err := fmt.Sscanf(line, name+"calls=%d,usec=%d", &s.calls, &s.micros); err != nil {
			return callStats{}, fmt.Errorf("INFO commandstats: %q: %w", strings.TrimSpace(line), err)
		}
		return s, nil
	}
	return callStats{}, nil
}
