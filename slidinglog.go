package ration

import (
	"slices"
	"sort"
	"strconv"
	"time"
)

// SlidingLog admits at most Limit units in any Window: it remembers each grant until it is one Window old.
//
// Guarantee: in any span of the length of a Window, closed at its end and open at its start, at most Limit units are granted.
//
// Its price is memory: 100 to 120 bytes in Redis for each grant in the window, whatever its cost. The time of a decision does
// not depend on how many there are, but for its logarithm; up to 250 that are out are taken away at once. A log that
// nobody asks for any more is freed by Redis when it expires: for logs of very many grants set lazyfree-lazy-expire to yes, so
// that it does that in the background too.
//
// What is given back stays in memory with its grant, but for one of several such grants beside each other; while some is in the
// log, a denial takes several times as long.
//
// Grants that are ahead of a clock which stepped back count as made now, and where those are more than 250, or some of the log
// were given back, so do all others: nothing is given back, and all are out within a Window. That takes time once, a millisecond or
// two for 10,000 grants.
//
// A changed Limit counts at once, with all that was granted before; so does a changed Window, but for grants that were out
// under a shorter one and may have been taken away. So one key should not be decided under windows of different lengths in turn.
//
// The zero value is refused. Stored: a sorted set per key, which expires when its newest grant is one Window old, or a
// second later.
type SlidingLog struct {
	// Limit is the units per window: 1 to 100,000. For more, use [SlidingWindow] or [GCRA].
	Limit int64
	// Window is how long a grant counts: whole milliseconds, 1 ms to 2^52 µs (142 years).
	Window time.Duration
}

const (
	slidingLogName = "sliding-log"

	maxLog = 100_000

	sumModulus = 100_000_000_000 // of scripts/parts/slidinglog_look.lua
)

// String is the plan as ParsePlan reads it: "sliding-log 60/2h".
func (p SlidingLog) String() string { return formatWindow(slidingLogName, p.Limit, p.Window) }

func parseSlidingLog(p *planParser) Plan {
	var plan SlidingLog
	plan.Limit, plan.Window = p.quota()
	return plan
}

func (p SlidingLog) prepare() (*preparedPlan, error) {
	if err := checkWindow(slidingLogName, p.Limit, maxLog, p.Window); err != nil {
		return nil, err
	}
	args := []any{strconv.FormatInt(p.Limit, 10), strconv.FormatInt(p.Window.Microseconds(), 10)}
	return &preparedPlan{
		plan:      p,
		text:      p.String(),
		kind:      "sl1",
		limit:     p.Limit,
		take:      &slidingLogTake,
		peek:      &slidingLogPeek,
		refund:    &slidingLogRefund,
		args:      args,
		argsUpTo:  args,
		algorithm: p,
	}, nil
}

func (p SlidingLog) plausible(r reply) bool {
	remaining, retry, reset := r[1], r[2], r[3]
	return 0 <= remaining && remaining <= p.Limit && 0 <= retry && retry <= reset && reset <= p.Window.Microseconds() &&
		(reset > 0 || remaining == p.Limit)
}

// outcome takes the waiting time from the reply, for only the script sees the log. It is that of the cost that was asked.
func (p SlidingLog) outcome(r reply, _ int64) outcome {
	return outcome{remaining: r[1], retryAfter: micros(r[2]), resetAfter: micros(r[3])}
}

// before has the part of the grant that ends that much earlier.
func (p SlidingLog) before(r reply, units int64) reply {
	r[1] += units
	if r[4] -= units; r[4] < 0 {
		r[4] += sumModulus
	}
	return r
}

func (p SlidingLog) taken(r reply, units int64) []any {
	sum, now := r[4], r[5]
	return []any{units, sum, now}
}

func (p SlidingLog) newTwin() twin {
	return &slidingLogTwin{limit: p.Limit, window: p.Window.Microseconds()}
}

// twinFrom has one grant, which is out when the last one is.
func (p SlidingLog) twinFrom(free int64, r reply, atMicros int64) twin {
	t := &slidingLogTwin{limit: p.Limit, window: p.Window.Microseconds()}
	if used := p.Limit - free; used > 0 {
		reset := r[3]
		if reset == 0 {
			reset = t.window
		}
		t.grants, t.id = []grant{{atMicros + reset - t.window, used, used, used, false}}, used
	}
	return t
}

// slidingLogTwin is the log of one key. It counts as the script does.
type slidingLogTwin struct {
	limit, window int64
	apart         int64   // in microseconds: a grant less than that behind the one before becomes one with it, at the later moment; 0: none does
	grants        []grant // in the order they were made, and of their moments
	id            int64   // of the last grant, also when all are out: a clock that stepped back may make one at a moment of an earlier one
}

// grant is an entry of a log.
type grant struct {
	atMicros int64
	id       int64 // the sum of the units of all grants up to and with it, when it was made
	sum      int64 // that sum without what was given back since
	units    int64 // 0: given back
	together bool  // of several requests
}

// liveAt are the grants in the window that ends at a moment.
func (t *slidingLogTwin) liveAt(nowMicros int64) []grant {
	return t.grants[sort.Search(len(t.grants), func(i int) bool { return t.grants[i].atMicros > nowMicros-t.window }):]
}

func totalOf(live []grant) int64 {
	if len(live) == 0 {
		return 0
	}
	return live[len(live)-1].sum - live[0].sum + live[0].units
}

// waits are how long it takes until a request of `cost` units fits, and until all grants are out.
func (t *slidingLogTwin) waits(live []grant, nowMicros, cost int64) (retry, reset int64) {
	if len(live) == 0 {
		return 0, 0
	}
	out := func(g grant) int64 { return min(g.atMicros, nowMicros) + t.window - nowMicros }
	if lacking := totalOf(live) + cost - t.limit; lacking > 0 {
		before := live[0].sum - live[0].units
		retry = out(live[sort.Search(len(live), func(i int) bool { return live[i].sum-before >= lacking })])
	}
	if total := totalOf(live); total > 0 {
		before := live[0].sum - live[0].units
		reset = out(live[sort.Search(len(live), func(i int) bool { return live[i].sum-before >= total })])
	}
	return retry, reset
}

// manyAhead is how many grants a clock that stepped back may leave ahead of it; if more, all become one.
const manyAhead = 250

// pullBack makes the grants ahead of the clock, which stepped back, one grant of now.
func (t *slidingLogTwin) pullBack(nowMicros int64) {
	first := sort.Search(len(t.grants), func(i int) bool { return t.grants[i].atMicros > nowMicros })
	if first == len(t.grants) {
		return
	}
	ahead, live := t.grants[first:], t.liveAt(nowMicros)
	if len(ahead) > manyAhead || slices.ContainsFunc(live, func(g grant) bool { return g.units == 0 }) {
		ahead, first = live, 0
	}
	last, total := ahead[len(ahead)-1], totalOf(ahead)
	t.grants = t.grants[:first]
	if total > 0 {
		t.grants = append(t.grants, grant{nowMicros, last.id, last.sum, total, false})
	}
}

func (t *slidingLogTwin) takeAt(nowMicros, cost, count int64, _ bool) reply {
	t.pullBack(nowMicros)
	live := t.liveAt(nowMicros)
	room := max(t.limit-totalOf(live), 0)
	granted := fit(room, cost, count)
	units := granted * cost
	if units > 0 {
		t.id += units
		sum := units
		if len(live) > 0 {
			sum += live[len(live)-1].sum
		}
		one := grant{nowMicros, t.id, sum, units, granted > 1}
		if last := len(live) - 1; last > 0 && nowMicros-live[last-1].atMicros < t.apart {
			one.units += live[last].units
			live = live[:last]
		}
		live = append(live, one)
		t.grants = live // which forgets what is out
	}
	r := reply{granted, room - units}
	retry, reset := t.waits(live, nowMicros, cost)
	if granted < count {
		r[2] = retry
	}
	r[3] = reset
	r[4], r[5] = t.id, nowMicros
	return r
}

func (t *slidingLogTwin) refundAt(_ int64, r reply, units int64) int64 {
	id, taken := r[4], r[5]
	first := sort.Search(len(t.grants), func(i int) bool { return t.grants[i].atMicros >= taken })
	for i := first; i < len(t.grants) && t.grants[i].atMicros == taken; i++ {
		whose := t.grants[i]
		behind := whose.id - id
		ahead := whose.units - units - behind
		isWhole := behind == 0 && ahead == 0
		if whose.units == 0 || !isWhole && (!whose.together || behind < 0 || ahead < 0) {
			continue
		}
		// A grant that was made together with others is a part of theirs.
		parts := []grant{{taken, id, whose.sum - behind, units, false}}
		if behind > 0 {
			parts = append(parts, grant{taken, whose.id, whose.sum, behind, true})
		}
		if ahead > 0 {
			parts = slices.Insert(parts, 0, grant{taken, id - units, whose.sum - behind - units, ahead, true})
		}
		t.grants = slices.Replace(t.grants, i, i+1, parts...)
		if ahead > 0 {
			i++
		}
		t.grants[i].units = 0
		for later := range t.grants[i:] {
			t.grants[i+later].sum -= units
		}
		return units
	}
	return 0
}

func (t *slidingLogTwin) peekAt(nowMicros int64) reply {
	live := t.liveAt(nowMicros)
	retry, reset := t.waits(live, nowMicros, 1)
	return reply{0, max(t.limit-totalOf(live), 0), retry, reset}
}
