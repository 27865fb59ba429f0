package ration

import (
	"context"
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

	backlog leaseBacklog

	shortest atomic.Int64 // nanoseconds that some are held at most; 0: none was yet
	isSwept  atomic.Bool  // a goroutine looks for what is held for too long
}

type leaseShard struct {
	mu     sync.Mutex
	byHash map[uint64]*lease
}

// leaseBacklog is what goes back in the background, by some goroutines at a time.
type leaseBacklog struct {
	mu      sync.Mutex
	returns []leaseReturn
	workers int
}

type leaseReturn struct {
	lease    *lease
	holdings []holding
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
	answer  []int64 // nil: there is none
	later   int64   // units of the grant behind it
	heardAt int64   // microseconds; 0: just now
}

// demand is how many units a key needs at a time, as far as known.
type demand struct {
	units   int64
	askedAt int64 // microseconds
	remains int64 // in Redis, when it last answered
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
// waits for those.
func (s *leases) spend(p *prefetcher, a asked, units int64) (spent spending, refill int64, l *lease) {
	if s.keys.Load() == 0 {
		return spending{}, 0, nil
	}
	now := s.clock()
	shard, l := s.find(p.Limiter, a)
	defer shard.mu.Unlock()
	if l == nil {
		return spending{}, 0, nil
	}
	if !l.isUnder(a.plan) { // Redis may change what is stored for another plan
		s.returnAll(l, s.removeLocked(shard, a.hash))
		return spending{}, 0, nil
	}
	s.returnAll(l, s.expireLocked(l, a.hash, now))
	for i := range l.holdings {
		if h := &l.holdings[i]; int64(h.left) >= units {
			h.left -= int32(units)
			s.units.Add(-units)
			spent = spending{h.answer, int64(h.left), h.heardAt}
			break
		}
	}
	l.dropEmpty()
	held := l.held()
	if spent.answer == nil || l.pending > 0 || held > int64(l.size)/2 || len(l.holdings) == mostHoldings {
		return spent, 0, nil
	}
	if refill = min(s.sizeOf(p, a, now), p.config.Max-held); refill < 2 {
		return spent, 0, nil
	}
	l.pending = int32(refill)
	return spent, refill, l
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

// reserve says how many requests like one that is to be sent should be asked for beside it, for which lease, which waits for those.
func (s *leases) reserve(p *prefetcher, a asked) (requests int64, l *lease) {
	units := s.sizeOf(p, a, s.clock()) - a.cost
	if a.upTo || a.count != 1 || units < a.cost || s.isClosed.Load() {
		return 0, nil
	}
	shard, l := s.find(p.Limiter, a)
	defer shard.mu.Unlock()
	switch {
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
	if requests = min(units, p.config.Max-l.held()) / a.cost; requests > 0 {
		l.pending = int32(requests * a.cost)
	}
	return requests, l
}

// hold has a lease keep the last units of a grant that it waited for, from the moment it was sent. It answers what is to go back instead.
func (s *leases) hold(p *prefetcher, a asked, l *lease, answer []int64, units, sentAt int64) (back []holding) {
	span, isFinal := p.leaseSpan(a.plan, answer)
	h := holding{
		answer: answer, heardAt: s.clock(), until: sentAt + int64(span/time.Microsecond),
		units: int32(units), left: int32(units), isFinal: isFinal,
	}
	shard, now := s.find(p.Limiter, a)
	defer shard.mu.Unlock()
	isClosed := s.isClosed.Load()
	if now != l && !isClosed {
		return nil // it was reset, or is counted under another plan: what was granted stays charged
	}
	l.pending = 0
	switch {
	case units == 0:
	case isClosed || h.until <= h.heardAt:
		return []holding{h}
	default:
		l.holdings, l.size = append(l.holdings, h), h.units
		s.units.Add(units)
		s.denials.clear(a.keys) // some may be granted again
	}
	return nil
}

// held is how many units of a key are held.
func (s *leases) held(l *Limiter, a asked) int64 {
	if s.keys.Load() == 0 {
		return 0
	}
	now := s.clock()
	shard, one := s.find(l, a)
	defer shard.mu.Unlock()
	if one == nil {
		return 0
	}
	if !one.isUnder(a.plan) {
		s.returnAll(one, s.removeLocked(shard, a.hash))
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
		s.removeLocked(shard, a.hash)
	}
}

// giveBack gives back what is held of a key, within a time, and says whether that was anything.
func (s *leases) giveBack(ctx context.Context, timeout time.Duration, l *Limiter, a asked) bool {
	shard, one := s.find(l, a)
	var all []holding
	if one != nil {
		all = s.takeAllLocked(one)
	}
	shard.mu.Unlock()
	if len(all) == 0 {
		return false
	}
	begin := nanos()
	for i, h := range all {
		left := timeout - time.Duration(nanos()-begin)
		if left <= 0 {
			s.returnAll(one, all[i:])
			break
		}
		_, _ = s.executor.call(context.WithoutCancel(orBackground(ctx)), left, one.plan.refundOf(a.keys, h.answer, int64(h.left)))
	}
	s.denials.clear(a.keys)
	return true
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

// returnAll gives back what was held, in the background.
func (s *leases) returnAll(l *lease, all []holding) {
	if len(all) == 0 {
		return
	}
	b := &s.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	b.returns = append(b.returns, leaseReturn{l, all})
	if b.workers < returnsAtOnce && s.executor.inBackground(s.returnBacklog) {
		b.workers++
	}
}

// returnBacklog gives back until there is nothing left to.
func (s *leases) returnBacklog() {
	for {
		b := &s.backlog
		b.mu.Lock()
		if len(b.returns) == 0 {
			b.returns = nil
			b.workers--
			b.mu.Unlock()
			return
		}
		last := len(b.returns) - 1
		one := b.returns[last]
		b.returns[last] = leaseReturn{}
		b.returns = b.returns[:last]
		b.mu.Unlock()
		_ = s.undo(one.lease, one.holdings)
	}
}

// undo gives back what was held, unless the breaker is open: then it stays charged.
func (s *leases) undo(l *lease, all []holding) (err error) {
	keys := l.storedKeys()
	for _, h := range all {
		if h.left == 0 {
			continue
		}
		o := l.plan.refundOf(keys, h.answer, int64(h.left))
		if refused := s.executor.lanes.of(o.storedKey()).refused(context.Background()); refused != nil {
			return refused
		}
		if failed := s.executor.undo(o); failed != nil {
			err = failed
		}
	}
	s.denials.clear(keys)
	return err
}

// storedKeys are where the key is stored. They are built anew, for few leases go back and all take room.
func (l *lease) storedKeys() []any {
	keys, _ := l.id.limiter.recent.stored(l.id.limiter.keys, l.plan, l.id.key)
	return keys
}

// startSweeping has a goroutine look for what is held for too long, if none does.
func (s *leases) startSweeping(ttl time.Duration) {
	if shortest := s.shortest.Load(); shortest == 0 || int64(ttl) < shortest {
		s.shortest.Store(int64(ttl))
	}
	if s.isSwept.CompareAndSwap(false, true) && !s.executor.inBackground(s.sweep) {
		s.isSwept.Store(false)
	}
}

// sweep gives back what is held for too long, as long as there are leases. It looks four times in the time that some are held, and takes a
// hundredth of the time for it at most.
func (s *leases) sweep() {
	took := time.Duration(0)
	for {
		select {
		case <-time.After(max(time.Duration(s.shortest.Load())/4, 100*took, time.Millisecond)):
		case <-s.executor.closed:
			return
		}
		begin := nanos()
		for i := range s.shards {
			s.sweepShard(&s.shards[i])
		}
		took = time.Duration(nanos() - begin)
		if s.keys.Load() == 0 {
			s.isSwept.Store(false)
			if s.keys.Load() == 0 || !s.isSwept.CompareAndSwap(false, true) {
				return
			}
		}
	}
}

// sweepShard gives back what is held for too long, and forgets the keys of which nothing is held any more.
func (s *leases) sweepShard(shard *leaseShard) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	now := s.clock()
	for hash, l := range shard.byHash {
		if len(l.holdings) > 0 && l.holdings[0].until <= now {
			s.returnAll(l, s.expireLocked(l, hash, now))
		}
		if len(l.holdings) == 0 && l.pending == 0 {
			s.removeLocked(shard, hash)
		}
	}
	if len(shard.byHash) == 0 {
		shard.byHash = nil // a map keeps the room that it had
	}
}

// close gives back all that is held, as far as the time lasts, and holds nothing any more.
func (s *leases) close(grace time.Duration) {
	s.isClosed.Store(true)
	var all []*lease
	var held [][]holding
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.Lock()
		for hash, l := range shard.byHash {
			all, held = append(all, l), append(held, s.removeLocked(shard, hash))
		}
		shard.mu.Unlock()
	}
	begin := nanos()
	var next atomic.Int64
	_ = atOnce(min(len(all), returnsAtOnce), func(int) error {
		for i := next.Add(1) - 1; int(i) < len(all) && nanos()-begin < int64(grace); i = next.Add(1) - 1 {
			if err := s.undo(all[i], held[i]); err != nil {
				return err // others would fail too
			}
		}
		return nil
	})
}

// returnsAtOnce bounds the calls on their way by which what is held is given back.
const returnsAtOnce = 64

// sizeOf is how many units should be taken at a time, now that some are wanted: twice as many as the last time, if that was just now, but
// no more than Max, and one where others might have to do without.
func (s *leases) sizeOf(p *prefetcher, a asked, now int64) int64 {
	d, found := s.demands.get(a.hash)
	switch {
	case !found:
		d = demand{units: 1}
	case now-d.askedAt <= int64(p.leaseTTL(a.plan)/time.Microsecond):
		d.units = min(2*d.units, p.config.Max)
	default:
		d.units = max(d.units/2, 1)
	}
	d.askedAt = now
	s.demands.put(a.hash, now, d)
	if d.remains/p.fleetSize() < d.units {
		return 1
	}
	return d.units
}

// remains notes what Redis says remains of a key.
func (s *leases) remains(a asked, units int64) {
	if d, found := s.demands.get(a.hash); found {
		d.remains = units
		s.demands.put(a.hash, d.askedAt, d)
	}
}

// leaseTTL is how long units of a plan are held at most.
func (s *prefetcher) leaseTTL(plan *preparedPlan) time.Duration {
	ttl := s.config.TTL
	for _, one := range plan.each() {
		if _, isWindow := one.plan.(FixedWindow); !isWindow {
			ttl = min(ttl, one.lasts/leaseShare)
		}
	}
	return ttl
}

// leaseShare is what part of a plan's time units are held at most.
const leaseShare = 10

// leaseSpan is how long what was granted may be held, and whether it cannot be given back then: a FixedWindow's until its window is over.
func (s *prefetcher) leaseSpan(plan *preparedPlan, answer []int64) (span time.Duration, isFinal bool) {
	span = s.leaseTTL(plan)
	if answer == nil {
		return 0, false
	}
	if _, isWindow := plan.plan.(FixedWindow); isWindow {
		left := windowLeft(plan, replyOf(answer))
		return min(span, left), left <= span
	}
	rest := answer[1:]
	for _, one := range plan.parts {
		fields := one.take.fields - 1
		if _, isWindow := one.plan.(FixedWindow); isWindow {
			r := reply{answer[0]}
			copy(r[1:], rest[:fields])
			span = min(span, windowLeft(one.preparedPlan, r))
		}
		rest = rest[fields:]
	}
	return span, false
}

// windowLeft is how long the window of a reply lasts at least: it says that in milliseconds, counted from the one in which it was made.
func windowLeft(plan *preparedPlan, r reply) time.Duration {
	return max(plan.outcome(r, 1).resetAfter-time.Millisecond, 0)
}
