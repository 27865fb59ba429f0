package ration

import "sync"

// places keep what is known of keys, of a bounded number: each key has four places to be in, by its hash, and takes that of the one whose
// entry is over first. They are safe for concurrent use.
//
// Of a key its hash is kept alone. Two keys of one hash would be taken for each other; of 10,000 keys that happens once in 10^11 processes.
type places[E any] struct {
	most int
	once sync.Once
	sets []placeSet[E]
}

type placeSet[E any] struct {
	mu   sync.Mutex
	ways [waysOfSet]place[E]
}

type place[E any] struct {
	hash  uint64
	until int64 // when the entry is over; 0: there is none
	entry E
}

const waysOfSet = 4

func (p *places[E]) set(hash uint64) *placeSet[E] {
	p.once.Do(func() { p.sets = make([]placeSet[E], max(p.most/waysOfSet, 1)) })
	return &p.sets[hash%uint64(len(p.sets))]
}

// put keeps an entry until a moment, which is not 0, in the place of the last of that hash.
func (p *places[E]) put(hash uint64, until int64, entry E) {
	set := p.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	first := &set.ways[0]
	for i := range set.ways {
		way := &set.ways[i]
		if way.hash == hash {
			first = way
			break
		}
		if way.until < first.until {
			first = way
		}
	}
	*first = place[E]{hash, until, entry}
}

// get is the entry of a hash, if there is one.
func (p *places[E]) get(hash uint64) (entry E, found bool) {
	set := p.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	for i := range set.ways {
		if way := &set.ways[i]; way.hash == hash && way.until != 0 {
			return way.entry, true
		}
	}
	return entry, false
}

// forget forgets the entry of a hash.
func (p *places[E]) forget(hash uint64) {
	set := p.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	for i := range set.ways {
		if set.ways[i].hash == hash {
			set.ways[i] = place[E]{}
		}
	}
}

// count is how many entries are not over at a moment.
func (p *places[E]) count(now int64) (n int) {
	p.set(0)
	for i := range p.sets {
		set := &p.sets[i]
		set.mu.Lock()
		for j := range set.ways {
			if set.ways[j].until > now {
				n++
			}
		}
		set.mu.Unlock()
	}
	return n
}
