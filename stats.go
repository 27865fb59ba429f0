package ration

import (
	"sync/atomic"
)

// Stats is what a Client has done since it was made, and how it stands now: for metrics that count and for a look. The numbers are read
// one after the other, while others go on.
type Stats struct {
	// Decisions are those made, by who made them; looks too. All sources are there.
	Decisions map[Source]int64
	// Faults are the decisions that Redis did not make because it answered with an error.
	Faults int64
	// ConfigurationFaults are those of them that no waiting mends, and others that the redis client found: see ErrConfiguration.
	ConfigurationFaults int64

	// Timeouts are the calls that were not answered in time, those in the background too.
	Timeouts int64
	// BreakerChanges is how often a breaker opened or closed, and BreakersOpen how many are open now.
	BreakerChanges, BreakersOpen int64
	// InFlight is how many calls are on their way to Redis now, those included whose callers no longer wait.
	InFlight int64

	// Refunds are the calls of Refund that Redis took.
	Refunds int64
	// LateRefunds are the grants given back because they came too late for their callers.
	LateRefunds int64
	// PaidUnits are the units that Redis was charged with because they had been granted without it.
	PaidUnits int64

	// FleetSizes are how many processes share each limiter in use with FailLocal, by its name, as far as this one knows.
	FleetSizes map[string]int64
	// LeasedUnits is how many units are held in this process, of how many keys: see Prefetch.
	LeasedUnits, LeasedKeys int64
	// LocalKeys is how many keys are counted in this process now, and OwingKeys how many of them Redis has still to be charged for.
	LocalKeys, OwingKeys int64
}

// Stats is what the Client has done, and how it stands.
func (c *Client) Stats() Stats {
	if c == nil || c.executor == nil {
		return Stats{Decisions: make(map[Source]int64)}
	}
	n := &c.reporter.counters
	s := Stats{
		Decisions:           make(map[Source]int64, len(sources)),
		Faults:              n.faults.Load(),
		ConfigurationFaults: n.configurationFaults.Load(),
		Timeouts:            n.timeouts.Load(),
		BreakerChanges:      n.breakerChanges.Load(),
		BreakersOpen:        c.executor.lanes.breakersOpen(),
		InFlight:            c.executor.lanes.inFlight(),
		Refunds:             n.refunds.Load(),
		LateRefunds:         n.lateRefunds.Load(),
		PaidUnits:           n.paidUnits.Load(),
		FleetSizes:          c.fleet.sizes(),
		LeasedUnits:         c.leases.units.Load(),
		LeasedKeys:          c.leases.keys.Load(),
		LocalKeys:           c.local.counted.Load(),
		OwingKeys:           c.local.owing.Load(),
	}
	for i, source := range sources {
		s.Decisions[source] = n.decisions[i].Load()
	}
	return s
}

// sources are those of all decisions.
var sources = [...]Source{SourceRedis, SourceLease, SourceDenyCache, SourceLocal, SourceFailOpen, SourceFailClosed, SourceFailFunc}

// counters count what a Client does.
type counters struct {
	decisions           [len(sources)]atomic.Int64
	faults              atomic.Int64
	configurationFaults atomic.Int64
	timeouts            atomic.Int64
	breakerChanges      atomic.Int64
	refunds             atomic.Int64
	lateRefunds         atomic.Int64
	paidUnits           atomic.Int64
}

// count counts a decision.
func (n *counters) count(d *Decision) {
	for i := range sources {
		if sources[i] == d.Source {
			n.decisions[i].Add(1)
		}
	}
	failed := failureOf(d.Cause)
	if failed == nil {
		return
	}
	if failed.isFault {
		n.faults.Add(1)
	}
	if failed.isConfiguration {
		n.configurationFaults.Add(1)
	}
}
