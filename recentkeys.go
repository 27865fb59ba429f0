package ration

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// recentKeys remembers the stored keys of what a limiter was asked about lately, boxed as arguments, so that a key that is
// asked for often is not built anew each time. It has a fixed number of places, each for the last of the keys that hash to it.
// It is safe for concurrent use.
type recentKeys struct {
	places [64]atomic.Pointer[recentKey]
}

type recentKey struct {
	plan   *preparedPlan
	key    string
	stored [1]any // a string
}

var keySeed = maphash.MakeSeed()

// stored is where the state of a key under a plan lives: what keys.stored says.
func (r *recentKeys) stored(keys keySpace, plan *preparedPlan, key string) []any {
	place := &r.places[maphash.String(keySeed, key)%uint64(len(r.places))]
	if k := place.Load(); k != nil && k.plan == plan && k.key == key {
		return k.stored[:]
	}
	stored := keys.stored(plan, key)
	k := &recentKey{plan: plan, key: inside(stored, key), stored: [1]any{stored}}
	place.Store(k)
	return k.stored[:]
}

// inside is a key as a part of the stored one, which is kept anyway, where it was not escaped: the caller's may be a part of
// something large.
func inside(stored, key string) string {
	if at := strings.LastIndex(stored, key); at >= 0 {
		return stored[at : at+len(key)]
	}
	return strings.Clone(key)
}
