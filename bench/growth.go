package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// growth is how the work grows in what growth measures.
type growth struct {
	callers []int
	keys    []int
	limits  []int64
}

// growthCallers is how many callers ask while keys and limits grow.
const growthCallers = 64

// byCallers are contests of ever more callers.
func (b *benchmark) byCallers(ctx context.Context, rdb *redis.Client) (all []throughput, err error) {
	for _, w := range []work{hotAllowed, manyAllowed} {
		result, err := b.hold(ctx, contest{
			work: w, peers: some(byDefault, oneKey, leased, rueidisOf(gcra()).name, baseline), callers: b.growth.callers, open: b.openHere, stats: rdb,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, result)
	}
	return all, nil
}

// byKeys is a contest of ever more keys.
func (b *benchmark) byKeys(ctx context.Context) (throughput, error) {
	return b.grown(ctx, some(byDefault, oneKey, baseline), len(b.growth.keys), func(i int) (work, string) {
		w := manyAllowed
		w.n = b.growth.keys[i]
		w.quota.units = 1_000_000 // for one key alone, too
		return w, count(w.n, "key")
	})
}

// byLimits is a contest of ever greater limits, of which as much is used as a key can be asked for.
func (b *benchmark) byLimits(ctx context.Context) (throughput, error) {
	peers := append(ours(), redisRate())
	return b.grown(ctx, peers, len(b.growth.limits), func(i int) (work, string) {
		limit := b.growth.limits[i]
		q := quota{units: limit, refill: max(time.Second/time.Duration(limit), time.Microsecond), window: time.Second}
		return work{title: "One key with a limit", quota: q, mixed: true}, "limit " + grouped(float64(limit))
	})
}

// grown is a contest of a work that grows, a column for each size.
func (b *benchmark) grown(ctx context.Context, peers []peer, sizes int, size func(int) (work, string)) (throughput, error) {
	var result throughput
	for i := range sizes {
		w, name := size(i)
		c := contest{work: w, peers: peers, callers: []int{growthCallers}, open: b.openHere}
		one, err := b.hold(ctx, c)
		if err != nil {
			return result, fmt.Errorf("%s: %w", name, err)
		}
		if i == 0 {
			result = one
			result.columns[0] = name
			continue
		}
		result.columns, result.base = append(result.columns, name), append(result.base, one.base...)
		for peer := range peers {
			result.multiples[peer] = append(result.multiples[peer], one.multiples[peer]...)
		}
	}
	return result, nil
}
