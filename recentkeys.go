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
	stored []any  // strings
	hash   uint64 // of them
	one    [1]any // room for one
}

var keySeed = maphash.MakeSeed()

// stored is where the state of a key under a plan lives, and by what that is known here: what keys.stored says, and of each plan of a
// MultiPlan keys.storedFor.
func (r *recentKeys) stored(keys keySpace, plan *preparedPlan, key string) (stored []any, hash uint64) {
	place := &r.places[hashOf(key)%uint64(len(r.places))]
	if k := place.Load(); k != nil && k.plan == plan && k.key == key {
		return k.stored, k.hash
	}
	k := &recentKey{plan: plan}
	if plan.parts == nil {
		stored := keys.stored(plan, key)
		k.key, k.stored, k.hash = inside(stored, key), append(k.one[:0], stored), hashOf(stored)
	} else {
		k.key, k.hash = strings.Clone(key), keys.hashOf(plan, Request{Key: key})
		for _, one := range plan.parts {
			k.stored = append(k.stored, keys.storedFor(one, key))
		}
	}
	place.Store(k)
	return k.stored, k.hash
}

// inside is a key as a part of the stored one, which is kept anyway, where it was not escaped: the caller's may be a part of
// something large.
func inside(stored, key string) string {
	if at := strings.LastIndex(stored, key); at >= 0 {
		return stored[at : at+len(key)]
	}
	return strings.Clone(key)
}
