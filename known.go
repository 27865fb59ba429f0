package ration

import (
	"hash/maphash"
	"time"
)

// known is what Redis last said of a key.
type known struct {
	plan     *preparedPlan
	reply    reply
	atMicros int64 // when, by the Client's clock
}

// isOver says that nothing of what Redis said matters any more.
func (k *known) isOver(now int64) bool {
	return now >= k.atMicros+int64(k.plan.outcome(k.reply, 1).resetAfter/time.Microsecond)
}

// knownKeys remembers what Redis last said of the keys asked for lately. Two keys that are taken for each other start from each other's
// numbers in an outage.
type knownKeys struct{ places[known] }

// put remembers a reply about the key of a hash, in the place of one that is oldest.
func (k *knownKeys) put(hash uint64, plan *preparedPlan, r reply, now int64) {
	k.places.put(hash, now, known{plan, r, now})
}

// get is what Redis last said of a key, if that is remembered.
func (k *knownKeys) get(key string) *known {
	if one, found := k.places.get(hashOf(key)); found {
		return &one
	}
	return nil
}

// forget forgets what Redis said of a key.
func (k *knownKeys) forget(key string) { k.places.forget(hashOf(key)) }

// hashOf is by what a stored key is known in this process.
func hashOf(key string) uint64 { return maphash.String(keySeed, key) }

// hashOf is by what the keys of a request under a MultiPlan are known together, whatever the numbers of the plans: a GCRA has them in its
// stored key.
func (s keySpace) hashOf(p *preparedPlan, r Request) (hash uint64) {
	hash = hashOf(s.head)
	for _, one := range p.parts {
		key, found := r.Keys[one.name]
		if !found {
			key = r.Key
		}
		hash = hash*31 + hashOf(key)
	}
	return hash
}
