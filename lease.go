package ration

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// leases are the units that a Client holds, granted by Redis ahead of need. It is safe for concurrent use.
type leases struct {
	executor *executor
	denials  *denials
	clock    clock
	most     int64 // keys

	demands  places[demand]
	shards   [64]leaseShard
	keys     atomic.Int64 // with leases
	units    atomic.Int64 // held
	isClosed atomic.Bool

	asked   sync.WaitGroup // units that were asked for, until they are held or on their way back
	backlog leaseBacklog

	shortest atomic.Int64 // nanoseconds that some are held at most; 0: none was yet
	isSwept  atomic.Bool  // a goroutine looks for what is held for too long
}

type leaseShard struct {
	mu     sync.Mutex
	byHash map[uint64]*lease
}

// leaseID is what a lease is for: a key of a limiter, or of one of its shards.
type leaseID struct {
	limiter *Limiter
	key     string
	shard   byte
}

// lease is what is held of a key.
type lease struct {
	id       leaseID
	plan     *preparedPlan
	holdings []holding // in the order in which they were granted, mostHoldings at most
	size     int32     // units of the last, at first
	pending  int32     // units that were asked for
	took     int64     // microseconds, from when the last were asked for until they were there
	isReset  bool      // Redis has forgotten what was granted
}

const mostHoldings = 2

// holding is what is left of one grant: its last units.
type holding struct {
	answer      []int64
	heardAt     int64 // microseconds
	until       int64 // microseconds
	units, left int32
	isFinal     bool // nothing can be given back then
}

// spending is what was taken off a holding.
type spending struct {
	answer []int64 // nil: there is none
	later  int64   // units of the grant behind it
	isHeld bool    // else it was granted just now
	age    time.Duration
}

func newLeases(e *executor, d *denials, most int, now clock) *leases {
	return &leases{executor: e, denials: d, clock: now, most: int64(most), demands: places[demand]{most: most}}
}

func (l *Limiter) leaseID(a asked) leaseID {
	id := leaseID{limiter: l, key: a.key}
	if a.plan.shard != "" {
		id.shard = a.plan.shard[0]
	}
	return id
}

// isOf says whether two limiters count this together.
func (id leaseID) isOf(other leaseID) bool {
	return id.key == other.key && id.shard == other.shard && (id.limiter == other.limiter || id.limiter.sharesWith(other.limiter))
}

// find locks the shard of a request's lease, and answers that too, if there is one. Of two requests of one hash only one has a lease.
func (s *leases) find(l *Limiter, a asked) (shard *leaseShard, one *lease) {
	shard = &s.shards[a.hash%uint64(len(s.shards))]
	shard.mu.Lock()
	if one = shard.byHash[a.hash]; one != nil && !one.id.isOf(l.leaseID(a)) {
		one = nil
	}
	return shard, one
}

// spend takes units off what is held, if there are as many of one grant. It says how many should be asked for then, for which lease, which
// waits for those until hold.
func (s *leases) spend(p *prefetcher, a asked, units int64) (spent spending, refill int64, l *lease) {
	if s.keys.Load() == 0 {
		return spending{}, 0, nil
	}
	now := s.clock()
	shard, l := s.find(p.Limiter, a)
	defer shard.mu.Unlock()
	if l == nil || !l.isUnder(a.plan) {
		return spending{}, 0, nil
	}
	s.returnAll(l, s.expireLocked(l, a.hash, now))
	for i := range l.holdings {
		if h := &l.holdings[i]; int64(h.left) >= units {
			h.left -= int32(units)
			s.units.Add(-units)
			spent = spending{answer: h.answer, later: int64(h.left), isHeld: true, age: micros(now - h.heardAt)}
			break
		}
	}
	l.dropEmpty()
	held := l.held()
	if spent.answer == nil || l.pending > 0 || held > int64(l.size)/2 || len(l.holdings) == mostHoldings || s.isClosed.Load() ||
		l.runsOut(held, now) {
		return spent, 0, nil
	}
	if refill = min(s.sizeOf(p, a, now), p.config.Max-held); refill < 2 {
		return spent, 0, nil
	}
	l.pending = int32(refill)
	s.asked.Add(1)
	return spent, refill, l
}

// runsOut says that what is held is used up before more could be there, at the pace of the last grant: then whoever finds nothing asks for
// as much as may be held, at once, rather than somebody now for the part that was used.
func (l *lease) runsOut(held, now int64) bool {
	if len(l.holdings) == 0 {
		return true
	}
	last := &l.holdings[len(l.holdings)-1]
	return held*(now-last.heardAt) < int64(last.units-last.left)*l.took
}

func (l *lease) isUnder(plan *preparedPlan) bool { return l.plan.isSame(plan) }

func (l *lease) dropEmpty() {
	l.holdings = slices.DeleteFunc(l.holdings, func(h holding) bool { return h.left == 0 })
}

func (l *lease) held() (units int64) {
	for i := range l.holdings {
		units += int64(l.holdings[i].left)
	}
	return units
}

// reserve says how many requests like one that is to be sent should be asked for beside it, for which lease, which waits for those until
// hold.
func (s *leases) reserve(p *prefetcher, a asked) (requests int64, l *lease) {
	units := s.sizeOf(p, a, s.clock()) - a.cost
	if a.upTo || a.count != 1 || units < a.cost {
		return 0, nil
	}
	shard, l := s.find(p.Limiter, a)
	defer shard.mu.Unlock()
	switch {
	case s.isClosed.Load():
		return 0, nil
	case l == nil && shard.byHash[a.hash] != nil:
		return 0, nil
	case l == nil && s.keys.Add(1) > s.most:
		s.keys.Add(-1)
		return 0, nil
	case l == nil:
		l = &lease{id: p.leaseID(a), plan: a.plan}
		l.id.key = strings.Clone(a.key)
		if shard.byHash == nil {
			shard.byHash = make(map[uint64]*lease)
		}
		shard.byHash[a.hash] = l
		s.startSweeping(p.leaseTTL(a.plan))
	case !l.isUnder(a.plan) || l.pending > 0 || len(l.holdings) == mostHoldings:
		return 0, nil
	}
	// Another limiter of the name may hold more than the Max of this one.
	if requests = min(units, p.config.Max-l.held()) / a.cost; requests <= 0 {
		return 0, nil
	}
	l.pending = int32(requests * a.cost)
	s.asked.Add(1)
	return requests, l
}

// hold has a lease keep the last units of a grant that it waited for, from the moment it was sent; or gives them back.
func (s *leases) hold(p *prefetcher, a asked, l *lease, answer []int64, units, sentAt int64) {
	defer s.asked.Done()
	span, isFinal := p.leaseSpan(a.plan, answer)
	h := holding{
		answer: slices.Clone(answer), heardAt: s.clock(), until: sentAt + int64(span/time.Microsecond),
		units: int32(units), left: int32(units), isFinal: isFinal,
	}
	shard, now := s.find(p.Limiter, a)
	defer shard.mu.Unlock()
	l.pending, l.took = 0, h.heardAt-sentAt
	switch {
	case units == 0 || l.isReset:
	case now != l || s.isClosed.Load() || h.until <= h.heardAt:
		s.returnAll(l, []holding{h})
	default:
		l.holdings, l.size = append(l.holdings, h), h.units
		s.units.Add(units)
		s.denials.clear(a.keys) // some may be granted again
	}
}

// held is how many units of a key are held.
func (s *leases) held(l *Limiter, a asked) int64 {
	if s.keys.Load() == 0 {
		return 0
	}
	now := s.clock()
	shard, one := s.find(l, a)
	defer shard.mu.Unlock()
	if one == nil || !one.isUnder(a.plan) {
		return 0
	}
	s.returnAll(one, s.expireLocked(one, a.hash, now))
	return one.held()
}

// forget drops what is held of a key, which Redis has forgotten.
func (s *leases) forget(l *Limiter, a asked) {
	shard, one := s.find(l, a)
	defer shard.mu.Unlock()
	if one != nil {
		one.isReset = true
		s.removeLocked(shard, a.hash)
	}
}

// change forgets the lease of a key under another plan than that of a request, and answers what was held of it.
func (s *leases) change(l *Limiter, a asked) (one *lease, all []holding) {
	if s.keys.Load() == 0 {
		return nil, nil
	}
	shard, one := s.find(l, a)
	defer shard.mu.Unlock()
	if one == nil || one.isUnder(a.plan) {
		return nil, nil
	}
	return one, s.removeLocked(shard, a.hash)
}

// expireLocked takes what is held for too long, as far as it can be given back. What was not needed is not taken ahead next time; the hash
// is that of the key.
func (s *leases) expireLocked(l *lease, hash uint64, now int64) (over []holding) {
	l.holdings = slices.DeleteFunc(l.holdings, func(h holding) bool {
		if h.until > now {
			return false
		}
		s.units.Add(-int64(h.left))
		if h.left > 0 {
			d, _ := s.demands.get(hash)
			d.units = int64(max(h.units-h.left, 1))
			s.demands.put(hash, now, d)
			if !h.isFinal {
				over = append(over, h)
			}
		}
		return true
	})
	return over
}

// takeAllLocked takes all that is held of a key.
func (s *leases) takeAllLocked(l *lease) []holding {
	all := l.holdings
	s.units.Add(-l.held())
	l.holdings = nil
	return all
}

// removeLocked forgets a key, and takes what is held of it.
func (s *leases) removeLocked(shard *leaseShard, hash uint64) []holding {
	l := shard.byHash[hash]
	delete(shard.byHash, hash)
	s.keys.Add(-1)
	return s.takeAllLocked(l)
}
