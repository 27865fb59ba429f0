package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// script is a peer whose time in Redis is measured, and what that time is meant to be.
type script struct {
	peer
	allowed, denied aim // of multiples of the baseline's time
}

// aim is the most that a figure is meant to be; 0: none is set.
type aim float64

// scripts are those that are measured, in the order in which they are shown: each plan's, and the baseline's, twice.
func scripts() []script {
	again := redisRate()
	again.name = "the same again"
	return []script{
		{gcra(), 0.85, 0.8},
		{gcraForCount(), 1, 0.8},
		{fixedWindow(), 0.65, 0.8},
		{tokenBucket(), 1.3, 1},
		{slidingWindow(), 1.3, 1},
		{peer: slidingLog()},
		{together("gcra", gcraPlan), togetherAim(3), 0},
		{together("fixedwindow", fixedWindowPlan), togetherAim(3), 0},
		{together("tokenbucket", tokenBucketPlan), togetherAim(5), 0},
		{together("slidingwindow", slidingWindowPlan), togetherAim(5), 0},
		{peer: redisRate()},
		{peer: again},
	}
}

// togetherAim is that of a MultiPlan, from the microseconds that each of its plans may take where the baseline takes 4.5.
func togetherAim(micros float64) aim { return aim(plansTogether * micros / 4.5) }

// spent is used up by a few requests, also by requests for a count, and then gives back what scarce does.
var spent = quota{units: aCount, refill: 50 * time.Millisecond, window: aCount * 50 * time.Millisecond}

// serverTimes are how long Redis itself takes for a decision on one key, as multiples of the baseline's time.
type serverTimes struct {
	scripts []script
	figures // allowed, denied
}

func (b *benchmark) serverTimes(ctx context.Context) (serverTimes, error) {
	result := serverTimes{scripts: scripts()}
	base := slices.IndexFunc(result.scripts, func(s script) bool { return s.name == baseline })
	rdb := redis.NewClient(b.options)
	defer func() { _ = rdb.Close() }()
	for _, c := range []struct {
		column string
		quota  quota
		denied bool
	}{
		{"allowed", plenty, false},
		{"denied", spent, true},
	} {
		b.tell("Time in Redis, %s", c.column)
		calls := make([]scriptCall, len(result.scripts))
		for i, s := range result.scripts {
			var err error
			if calls[i], err = recordCall(ctx, s.peer, b.options, c.quota, b.keys.next()); err != nil {
				return result, err
			}
		}
		measured, err := inRounds(b.parts*b.rounds, len(calls), func(i int) (float64, error) {
			keys := calls[i].allStored(b.keys.next())
			micros, replies, err := serverTime(ctx, rdb, calls[i], keys, warmUp, b.part())
			if err == nil {
				err = checkReplies(replies, c.denied)
			}
			if err != nil {
				return 0, fmt.Errorf("%s, %s: %w", result.scripts[i].name, c.column, err)
			}
			return micros, nil
		})
		if err != nil {
			return result, err
		}
		result.add(c.column, measured, base)
	}
	return result, nil
}

// warmUp is how many calls go before those that are timed: they take what spent holds, and make what is allocated once.
const warmUp = aCount + 4

// part is how many calls one measurement of time in Redis has. It takes a few milliseconds, and most of many short ones meet
// nothing else that the machine does.
func (b *benchmark) part() int { return max(b.sample/b.parts, 1) }

// checkReplies finds a script that did other work than it was measured for: none of its requests may be denied, or nearly
// all have to be.
func checkReplies(replies []any, denied bool) error {
	var yes int
	for _, reply := range replies {
		ok, err := granted(reply)
		if err != nil {
			return err
		}
		if ok {
			yes++
		}
	}
	switch {
	case !denied && yes < len(replies):
		return fmt.Errorf("%d of %d requests were denied, and none should be", len(replies)-yes, len(replies))
	case denied && yes > len(replies)/10:
		return fmt.Errorf("%d of %d requests were allowed, and hardly any should be", yes, len(replies))
	default:
		return nil
	}
}

// serverTime is how long Redis itself takes for a script call on stored keys, in microseconds: the mean of n calls, sent in
// one pipeline behind others that warm up, so that Redis does nothing else meanwhile. It is NaN where Redis does not tell.
// The replies are those of the n calls.
func serverTime(
	ctx context.Context, rdb *redis.Client, c scriptCall, storedKeys []string, warm, n int,
) (micros float64, replies []any, err error) {
	pipe := rdb.Pipeline()
	for range warm {
		c.add(ctx, pipe, storedKeys...)
	}
	before := pipe.Info(ctx, "commandstats")
	for range n {
		c.add(ctx, pipe, storedKeys...)
	}
	after := pipe.Info(ctx, "commandstats")
	commands, err := pipe.Exec(ctx)
	if err != nil && !refused(err) {
		return 0, nil, err
	}
	for i, command := range commands {
		call, ok := command.(*redis.Cmd)
		if !ok {
			continue
		}
		reply, err := call.Result()
		if err != nil {
			return 0, nil, err
		}
		if i > warm {
			replies = append(replies, reply)
		}
	}
	begun, err := readStats(before)
	if err != nil {
		return 0, nil, err
	}
	ended, err := readStats(after)
	if err != nil {
		return 0, nil, err
	}
	if ended.calls == begun.calls {
		return math.NaN(), replies, nil
	}
	return float64(ended.micros-begun.micros) / float64(ended.calls-begun.calls), replies, nil
}

// callStats is what Redis counted of EVALSHA since it started: calls, and the time for all of them.
type callStats struct{ calls, micros int64 }

func readStats(info *redis.StringCmd) (callStats, error) {
	text, err := info.Result()
	if refused(err) {
		return callStats{}, nil // which are as if nothing was called
	}
	if err != nil {
		return callStats{}, err
	}
	return parseStats(text)
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
