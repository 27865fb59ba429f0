package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// logs are figures of the plan SlidingLog, what Redis stores of which grows with the grants in a window.
type logs struct {
	lines []logLine
	base  float64  // what an allowed call of the baseline took in the same rounds, µs
	outs  []logOut // of logs as long as those of the last line
	grant logGrant
}

// logLine is about logs of so many grants of one unit each.
type logLine struct {
	length int
	held   float64   // how many there were on average while granted was measured
	micros []float64 // a column for each of logColumns
	bytes  float64
}

// logColumns are the requests that are measured: for a unit, granted while as much leaves the window as comes in; for a unit,
// of a full log; and for half of the limit, of a full log of grants whose costs differ.
var logColumns = []string{"granted", "denied", "denied, costs differ"}

// logOut is about the calls that find a log out, but for so many grants.
type logOut struct {
	late         int
	expired      bool // so that Redis frees it, in the first call; else the script does
	median, most float64
}

// logGrant is one grant of so many units, and what is stored of it.
type logGrant struct {
	cost    int
	entries int64
	bytes   float64
}

const (
	// longestCall is the most that the longest call on a log of 10,000 grants is meant to take, µs.
	longestCall aim = 1000
	// logMemory is what a log of logMemoryAt grants is meant to take at most, bytes.
	logMemory aim = 110_000
)

// longest is the length of the longest logs.
func (l logs) longest() int { return l.lines[len(l.lines)-1].length }

// logMemoryAt is how many grants logMemory is for.
const logMemoryAt = 1000

// logs measures logs of several lengths.
func (b *benchmark) logs(ctx context.Context) (logs, error) {
	rdb := redis.NewClient(b.options)
	defer func() { _ = rdb.Close() }()
	result := logs{lines: make([]logLine, len(b.logLengths))}
	var measures []func() (float64, error)
	for i, n := range b.logLengths {
		b.tell("Logs of %d grants", n)
		result.lines[i].length = n
		made, err := b.measuresOfLog(ctx, rdb, &result.lines[i])
		if err != nil {
			return result, err
		}
		measures = append(measures, made...)
	}
	base, err := recordCall(ctx, redisRate(), b.options, plenty, b.keys.next())
	if err != nil {
		return result, err
	}
	measures = append(measures, func() (float64, error) {
		micros, _, err := serverTime(ctx, rdb, base, []string{base.stored(b.keys.next())}, warmUp, b.part())
		return micros, err
	})
	b.tell("Time of calls on them")
	parts := max(b.parts/5, 1) // fewer, for they are longer
	measured, err := inRounds(parts*b.rounds, len(measures), func(i int) (float64, error) { return measures[i]() })
	if err != nil {
		return result, fmt.Errorf("logs: %w", err)
	}
	for i, figures := range measured[:len(measures)-1] {
		line := &result.lines[i/len(logColumns)]
		line.micros = append(line.micros, median(figures))
	}
	result.base = median(measured[len(measures)-1])
	if result.outs, err = b.logsOut(ctx, rdb, result.longest()); err != nil {
		return result, fmt.Errorf("logs: %w", err)
	}
	result.grant, err = b.storeGrant(ctx, rdb, result.longest())
	return result, err
}

// measuresOfLog are measurements of logs of one length, one for each of logColumns. The line is told what else there is.
func (b *benchmark) measuresOfLog(ctx context.Context, rdb *redis.Client, line *logLine) ([]func() (float64, error), error) {
	steady, err := b.steadyLog(ctx, rdb, line)
	if err != nil {
		return nil, err
	}
	full, key, err := b.fullLog(ctx, rdb, line.length, 1)
	if err != nil {
		return nil, err
	}
	if line.bytes, err = memoryUsage(ctx, rdb, key); err != nil {
		return nil, err
	}
	mixed, mixedKey, err := b.fullLog(ctx, rdb, line.length, 2)
	if err != nil {
		return nil, err
	}
	denied := func(c scriptCall, storedKey string) func() (float64, error) {
		return func() (float64, error) {
			micros, replies, err := serverTime(ctx, rdb, c, []string{storedKey}, warmUp, b.part())
			if err == nil {
				err = checkReplies(replies, true)
			}
			return micros, err
		}
	}
	half := mixed.costing(max(line.length*3/4, 1))
	return []func() (float64, error){steady, denied(full, key), denied(half, mixedKey)}, nil
}

// steadyLog is a measurement of a log from which as many grants leave the window as come in, one about every call: all
// requests are granted, as fast as Redis can, and the window is as long as that takes for the length of the log.
func (b *benchmark) steadyLog(ctx context.Context, rdb *redis.Client, line *logLine) (func() (float64, error), error) {
	var window time.Duration
	var call scriptCall
	choose := func(w time.Duration) (err error) {
		window = max(w.Round(time.Millisecond), time.Millisecond)
		call, err = recordCall(ctx, slidingLog(), b.options, quota{units: mostLogged, window: window}, b.keys.next())
		return err
	}
	measure := func() (micros, held float64, err error) {
		micros, replies, err := serverTime(ctx, rdb, call, []string{call.stored(b.keys.next())}, 2*line.length+warmUp, b.part())
		for _, reply := range replies {
			left, e := remaining(reply)
			if e != nil {
				return 0, 0, e
			}
			held += float64(mostLogged-left) / float64(len(replies))
		}
		if err == nil {
			err = checkReplies(replies, false)
		}
		return micros, held, err
	}
	// At first as if a call took 10 µs, and then as long as it did take.
	if err := choose(time.Duration(line.length) * 10 * time.Microsecond); err != nil {
		return nil, err
	}
	for range 2 {
		all, err := inRounds(3, 1, func(int) (float64, error) {
			_, held, err := measure()
			return held, err
		})
		if err != nil {
			return nil, err
		}
		if err := choose(time.Duration(float64(window) * float64(line.length) / median(all[0]))); err != nil {
			return nil, err
		}
	}
	var all []float64
	return func() (float64, error) {
		micros, held, err := measure()
		all = append(all, held)
		line.held = median(all)
		return micros, err
	}, nil
}

// fullLog makes a log of n grants, as many as its limit allows for long, and the call that it denies. The costs of the
// grants are 1, or 1 and up to most in turn.
func (b *benchmark) fullLog(ctx context.Context, rdb *redis.Client, n, most int) (scriptCall, string, error) {
	limit := 0
	for i := range n {
		limit += 1 + i%most
	}
	q := quota{units: int64(limit), window: time.Hour}
	call, err := recordCall(ctx, slidingLog(), b.options, q, b.keys.next())
	if err != nil {
		return call, "", err
	}
	key := call.stored(b.keys.next())
	left, err := fillLog(ctx, rdb, call, key, n, most)
	if err == nil && left != 0 {
		err = fmt.Errorf("a log of %d units has %d left when all are taken", limit, left)
	}
	return call, key, err
}

// fillLog makes n grants, of costs of 1 or of 1 and up to most in turn, and answers how many units remain.
func fillLog(ctx context.Context, rdb *redis.Client, call scriptCall, storedKey string, n, most int) (left int64, err error) {
	costs := make([]scriptCall, most)
	for i := range costs {
		costs[i] = call.costing(1 + i)
	}
	for done := 0; done < n; done += page {
		commands, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := done; i < min(done+page, n); i++ {
				costs[i%most].add(ctx, p, storedKey)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		last := commands[len(commands)-1].(*redis.Cmd)
		if left, err = remaining(last.Val()); err != nil {
			return 0, err
		}
	}
	return left, nil
}

// remaining are the units that remain, as a SlidingLog's script says.
func remaining(reply any) (int64, error) {
	if r, _ := reply.([]any); len(r) == 6 {
		if n, ok := r[1].(int64); ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("the script of a log replied %v", reply)
}

const (
	// outRepeats is how many logs of a kind are let out in a round.
	outRepeats = 3
	// outCalls is how many calls then follow each other on a log.
	outCalls = 10
)

// logsOut measures the first calls that find a log of n grants out, but for the late ones: the longest of them.
func (b *benchmark) logsOut(ctx context.Context, rdb *redis.Client, n int) ([]logOut, error) {
	outs := []logOut{{late: 1}, {}, {expired: true}}
	repeats := outRepeats * b.rounds
	measured, err := inRounds(repeats, len(outs), func(i int) (float64, error) {
		b.tell("Logs of %d grants that are out", n)
		call, key, err := b.letOut(ctx, rdb, n, outs[i])
		if err != nil {
			return 0, err
		}
		var most float64
		for range outCalls {
			micros, replies, err := serverTime(ctx, rdb, call, []string{key}, 0, 1)
			if err == nil {
				err = checkReplies(replies, false)
			}
			if err != nil {
				return 0, err
			}
			most = max(most, micros)
		}
		return most, unlink(ctx, rdb, []string{key})
	})
	if err != nil {
		return nil, err
	}
	for i := range outs {
		outs[i].median, outs[i].most = median(measured[i]), slices.Max(measured[i])
	}
	return outs, nil
}

// letOut makes a log of n grants and waits until they are out, but for the late ones.
func (b *benchmark) letOut(ctx context.Context, rdb *redis.Client, n int, out logOut) (scriptCall, string, error) {
	for window := time.Second / 2; ; window *= 2 {
		q := quota{units: mostLogged, window: window}
		call, err := recordCall(ctx, slidingLog(), b.options, q, b.keys.next())
		if err != nil {
			return call, "", err
		}
		key := call.stored(b.keys.next())
		inTime, err := b.fillAndWait(ctx, rdb, call, key, n, out, window)
		if err != nil || inTime {
			return call, key, err
		}
		if err := unlink(ctx, rdb, []string{key}); err != nil {
			return call, "", err
		}
	}
}

// fillAndWait is letOut with one window. It says whether the log held all grants at once.
func (b *benchmark) fillAndWait(
	ctx context.Context, rdb *redis.Client, call scriptCall, key string, n int, out logOut, window time.Duration,
) (inTime bool, err error) {
	left, err := fillLog(ctx, rdb, call, key, n-out.late, 1)
	if err != nil {
		return false, err
	}
	filled, err := rdb.Time(ctx).Result()
	if err != nil {
		return false, err
	}
	if out.late > 0 {
		if err := b.await(ctx, rdb, filled.Add(window/2)); err != nil {
			return false, err
		}
		if left, err = fillLog(ctx, rdb, call, key, out.late, 1); err != nil {
			return false, err
		}
	}
	if left != int64(mostLogged-n) {
		return false, nil
	}
	over := window
	if out.expired {
		// Its time to live counts from a little later.
		if over, err = rdb.PTTL(ctx, key).Result(); err != nil {
			return false, err
		}
	}
	// A key still shows in the millisecond in which it ends.
	return true, b.await(ctx, rdb, filled.Add(over+5*time.Millisecond))
}

// await waits until it is so late by the clock of Redis.
func (b *benchmark) await(ctx context.Context, rdb *redis.Client, moment time.Time) error {
	for {
		now, err := rdb.Time(ctx).Result()
		if err != nil || !now.Before(moment) {
			return err
		}
		if err := b.pause(ctx, moment.Sub(now)); err != nil {
			return err
		}
	}
}

// storeGrant finds what is stored of a grant of so many units.
func (b *benchmark) storeGrant(ctx context.Context, rdb *redis.Client, cost int) (logGrant, error) {
	g := logGrant{cost: cost}
	q := quota{units: mostLogged, window: time.Hour}
	call, err := recordCall(ctx, slidingLog(), b.options, q, b.keys.next())
	if err != nil {
		return g, err
	}
	key := call.stored(b.keys.next())
	c := call.costing(cost)
	if err := rdb.EvalSha(ctx, c.digest, []string{key}, c.args...).Err(); err != nil {
		return g, err
	}
	if g.entries, err = rdb.ZCard(ctx, key).Result(); err != nil {
		return g, err
	}
	g.bytes, err = memoryUsage(ctx, rdb, key)
	return g, err
}

// memoryUsage is how many bytes Redis says a key takes, every part of it counted; NaN where it does not say.
func memoryUsage(ctx context.Context, rdb *redis.Client, storedKey string) (float64, error) {
	bytes, err := rdb.MemoryUsage(ctx, storedKey, 0).Result()
	if refused(err) {
		return math.NaN(), nil
	}
	return float64(bytes), err
}
