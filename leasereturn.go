package ration

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

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

// giveBack gives back what is held of a key, within a time, and says whether that was anything.
func (s *leases) giveBack(ctx context.Context, timeout time.Duration, l *Limiter, a asked) bool {
	shard, one := s.find(l, a)
	var all []holding
	if one != nil {
		all = s.takeAllLocked(one)
	}
	shard.mu.Unlock()
	s.returnNow(ctx, timeout, one, all)
	return len(all) > 0
}

// returnNow gives back what was held, within a time; what there is no time for goes back in the background.
func (s *leases) returnNow(ctx context.Context, timeout time.Duration, l *lease, all []holding) {
	if len(all) == 0 {
		return
	}
	begin, keys := nanos(), l.storedKeys()
	for i, h := range all {
		left := timeout - time.Duration(nanos()-begin)
		if left <= 0 {
			s.returnAll(l, all[i:])
			break
		}
		_, _ = s.executor.call(context.WithoutCancel(orBackground(ctx)), left, l.plan.refundOf(keys, h.answer, int64(h.left)))
	}
	s.denials.clear(keys)
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

// close gives back all that is held, and what is on its way to be, as far as the time lasts, and holds nothing any more. What is held of a
// node that does not take it back stays charged.
func (s *leases) close(grace time.Duration) {
	s.isClosed.Store(true)
	byLane := make(map[*lane][]leaseReturn)
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.Lock()
		for hash, l := range shard.byHash {
			lane := s.executor.lanes.of(l.storedKeys()[0].(string))
			byLane[lane] = append(byLane[lane], leaseReturn{l, s.removeLocked(shard, hash)})
		}
		shard.mu.Unlock()
	}
	until := nanos() + int64(grace)
	var lanes sync.WaitGroup
	for _, all := range byLane {
		lanes.Go(func() { s.closeLane(all, until) })
	}
	lanes.Wait()
	settled := make(chan struct{})
	go func() {
		s.asked.Wait()
		close(settled)
	}()
	select {
	case <-settled:
	case <-time.After(time.Duration(until - nanos())):
	}
}

// closeLane gives back what is held of the keys of one node, until it fails to take something.
func (s *leases) closeLane(all []leaseReturn, until int64) {
	var next atomic.Int64
	_ = atOnce(min(len(all), returnsAtOnce), func(int) error {
		for i := next.Add(1) - 1; int(i) < len(all) && nanos() < until; i = next.Add(1) - 1 {
			if err := s.undo(all[i].lease, all[i].holdings); err != nil {
				next.Store(int64(len(all)))
				return err
			}
		}
		return nil
	})
}

// returnsAtOnce bounds the calls on their way by which what is held is given back.
const returnsAtOnce = 64
