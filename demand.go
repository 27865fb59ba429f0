package ration

import "time"

// demand is how many units a key needs at a time, as far as known.
type demand struct {
	units   int64
	askedAt int64 // microseconds
	remains int64 // in Redis, when it last answered
}

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
