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
	keys            int // in a script call, by which its time is divided; 0: as many as the peer has for one
}

// aim is the most that a figure is meant to be; 0: none is set.
type aim float64

// scripts are those that are measured, in the order in which they are shown: each plan's, and the baseline's, twice.
func scripts() []script {
	again := redisRate()
	again.name = "the same again"
	return []script{
		{peer: gcra(), allowed: 0.85, denied: 0.8},
		{peer: gcraForCount(), allowed: 1, denied: 0.8},
		{peer: fixedWindow(), allowed: 0.65, denied: 0.8},
		{peer: tokenBucket(), allowed: 1.3, denied: 1},
		{peer: slidingWindow(), allowed: 1.3, denied: 1},
		{peer: slidingLog()},
		{peer: together("gcra", gcraPlan), allowed: togetherAim(3)},
		{peer: together("fixedwindow", fixedWindowPlan), allowed: togetherAim(3)},
		{peer: together("tokenbucket", tokenBucketPlan), allowed: togetherAim(5)},
		{peer: together("slidingwindow", slidingWindowPlan), allowed: togetherAim(5)},
		ofManyKeys(gcra(), aimOfMicros(2.5)),
		ofManyKeys(fixedWindow(), 0),
		ofManyKeys(tokenBucket(), 0),
		ofManyKeys(slidingWindow(), 0),
		{peer: redisRate()},
		{peer: again},
	}
}

// manyKeys are as many as a script call has at most.
const manyKeys = 32

// ofManyKeys is the script that decides about many keys in one call, for each key.
func ofManyKeys(p peer, allowed aim) script {
	p.name = fmt.Sprintf("%s, each of %d keys", p.name, manyKeys)
	return script{peer: p, allowed: allowed, keys: manyKeys}
}

// aimOfMicros is that of a call that may take so many microseconds where the baseline takes 4.5.
func aimOfMicros(micros float64) aim { return aim(micros / 4.5) }

// togetherAim is that of a MultiPlan, from the microseconds that each of its plans may take where the baseline takes 4.5.
func togetherAim(micros float64) aim { return plansTogether * aimOfMicros(micros) }

// record notes its call.
func (s script) record(ctx context.Context, o *redis.Options, q quota, key string) (scriptCall, error) {
	if s.keys > 0 {
		return recordManyKeys(ctx, s.peer, o, q, key, s.keys)
	}
	return recordCall(ctx, s.peer, o, q, key)
}

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
			if calls[i], err = s.record(ctx, b.options, c.quota, b.keys.next()); err != nil {
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
			return micros / float64(max(result.scripts[i].keys, 1)), nil
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
