package main

import (
	"context"
	"runtime"
)

// memory is what the client allocates for a decision.
type memory struct{ allocs, bytes float64 }

// measureMemory counts what n decisions of one caller allocate in this process, once all that is kept has been made.
func measureMemory(ctx context.Context, l limiter, key string, n int) (memory, error) {
	keys := []string{key}
	if _, err := askTimes(ctx, l, keys, 1, n/10); err != nil {
		return memory{}, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := askTimes(ctx, l, keys, 1, n)
	runtime.ReadMemStats(&after)
	return memory{
		allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
	}, err
}
