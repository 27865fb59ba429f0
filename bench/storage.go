package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// storage is what Redis takes for a key of 12 bytes, in bytes: with all that it needs to find the key and to let it expire.
type storage struct {
	peer
	bare  float64 // under the key itself
	named float64 // under the name that the peer gives it
	aim   aim     // of bare
}

// storages measures what Redis takes for a key of each plan and of the baseline.
func (b *benchmark) storages(ctx context.Context) ([]storage, error) {
	all := []storage{
		{peer: gcra(), aim: 120},
		{peer: tokenBucket(), aim: 200},
		{peer: fixedWindow()},
		{peer: slidingWindow(), aim: 200},
		{peer: slidingLog()},
		{peer: redisRate()},
	}
	rdb := redis.NewClient(b.options)
	defer func() { _ = rdb.Close() }()
	// What is still stored would leave its mark on the tables in which Redis finds keys.
	if err := b.keys.deleteAll(ctx, rdb); err != nil {
		return nil, err
	}
	for i := range all {
		s := &all[i]
		b.tell("Memory in Redis, %s", s.name)
		call, err := recordCall(ctx, s.peer, b.options, enough, b.keys.next())
		if err != nil {
			return nil, err
		}
		if s.bare, err = b.store(ctx, rdb, call, func(key string) string { return key }); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		if s.named, err = b.store(ctx, rdb, call, call.stored); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return all, nil
}

// store makes calls about each of many keys of 12 bytes, and answers how much more memory Redis has for each of them then.
func (b *benchmark) store(
	ctx context.Context, rdb *redis.Client, call scriptCall, stored func(string) string,
) (bytes float64, err error) {
	before, err := b.usedMemory(ctx, rdb)
	if err != nil {
		return 0, err
	}
	keys := b.keys.takeShort(b.storedKeys)
	for i := range keys {
		keys[i] = stored(keys[i])
	}
	for range 2 { // so that nothing has the value of a new key
		if err := b.callEach(ctx, call, keys); err != nil {
			return 0, err
		}
	}
	after, err := b.usedMemory(ctx, rdb)
	if err != nil {
		return 0, err
	}
	return (after - before) / float64(len(keys)), unlink(ctx, rdb, keys)
}

// callEach makes a call about each stored key, on a connection of its own, whose buffers are gone with it.
func (b *benchmark) callEach(ctx context.Context, call scriptCall, keys []string) error {
	rdb := redis.NewClient(b.options)
	defer func() { _ = rdb.Close() }()
	for keys := range slices.Chunk(keys, page) {
		if _, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range keys {
				call.add(ctx, p, key)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// usedMemory is how many bytes Redis has allocated once it has come to rest, for it makes its tables larger and smaller in
// its idle time. It is NaN where Redis does not tell.
func (b *benchmark) usedMemory(ctx context.Context, rdb *redis.Client) (float64, error) {
	const (
		idle     = 300 * time.Millisecond // in which Redis begins with that
		restless = 10_000                 // bytes that come and go
		tries    = 30
	)
	last := math.Inf(1)
	for range tries {
		info, err := rdb.Info(ctx, "memory").Result()
		if refused(err) {
			return math.NaN(), nil
		}
		if err != nil {
			return 0, err
		}
		used, err := strconv.ParseFloat(infoField(info, "used_memory"), 64)
		if err != nil || math.Abs(used-last) < restless {
			return used, err
		}
		last = used
		if err := b.pause(ctx, idle); err != nil {
			return 0, err
		}
	}
	return last, nil
}
