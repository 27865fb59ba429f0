package ration

import (
	"hash/maphash"
	"sync"
	"time"
)

// known is what Redis last said of a key.
type known struct {
	hash     uint64 // of the stored key
	plan     *preparedPlan
	reply    reply
	atMicros int64 // when, by localMicros
}

// isOver says that nothing of what Redis said matters any more.
func (k *known) isOver(now int64) bool {
	return now >= k.atMicros+int64(k.plan.outcome(k.reply, 1).resetAfter/time.Microsecond)
}

// knownKeys remembers what Redis last said of the keys asked for lately, of a bounded number: each has four places to be in, and
// takes that of the one that was asked for longest ago. It is safe for concurrent use.
//
// Of a key its hash is kept alone. Two keys of one hash would start from each other's numbers in an outage; of 10,000 keys that
// happens once in 10^11 processes.
type knownKeys struct {
	most int
	once sync.Once
	sets []knownSet
}

type knownSet struct {
	mu   sync.Mutex
	ways [waysOfSet]known
}

const waysOfSet = 4

func (k *knownKeys) set(hash uint64) *knownSet {
	k.once.Do(func() { k.sets = make([]knownSet, max(k.most/waysOfSet, 1)) })
	return &k.sets[hash%uint64(len(k.sets))]
}

// put remembers a reply.
func (k *knownKeys) put(key string, plan *preparedPlan, r reply) {
	one := known{maphash.String(keySeed, key), plan, r, localMicros()}
	set := k.set(one.hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	oldest := &set.ways[0]
	for i := range set.ways {
		way := &set.ways[i]
		if way.hash == one.hash {
			oldest = way
			break
		}
		if way.atMicros < oldest.atMicros {
			oldest = way
		}
	}
	*oldest = one
}

// forget forgets what Redis said of a key.
func (k *knownKeys) forget(key string) {
	hash := maphash.String(keySeed, key)
	set := k.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	for i := range set.ways {
		if set.ways[i].hash == hash {
			set.ways[i] = known{}
		}
	}
}

// get is what Redis last said of a key, if that is remembered.
func (k *knownKeys) get(key string) *known {
	hash := maphash.String(keySeed, key)
	set := k.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	for _, way := range set.ways {
		if way.hash == hash && way.plan != nil {
			return &way
		}
	}
	return nil
}
