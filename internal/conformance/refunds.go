package conformance

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// refunds is what comes back when units are given back, and what does not.
func refunds() []scenario {
	var all []scenario
	for _, plan := range []ration.Plan{
		fixed(10, m), aligned(10, m), restarting(10, m), sliding(10, m), log(10, m), bucket(per(1, s), 10), gcra(per(1, s), 10),
	} {
		all = append(all, scenario{"what was taken comes back, at most", plan, []step{
			allow(0, 3, 7), refund(0, 0), allow(0, 0, 10), allow(0, 10, 0), refund(0, 1), allow(0, 0, 10),
			allow(0, 4, 6), allow(0, 6, 0), refund(0, 2), allow(0, 4, 0),
		}})
	}
	return append(all, slices.Concat(refundsOfWindows(), refundsOfBuckets(), refundsOfLogs())...)
}

func refundsOfWindows() []scenario {
	return []scenario{
		{"a refund stays in its window", fixed(10, m), []step{
			allow(0, 3, 7), allow(m, 4, 6), refund(m+s, 0), allow(m+s, 0, 6), refund(m+s, 1), allow(m+s, 0, 10),
		}},
		{"a refund stays in its window", aligned(10, m), []step{
			allow(30*s, 3, 7), allow(m, 4, 6), refund(m+s, 0), allow(m+s, 0, 6), refund(m+s, 1), allow(m+s, 0, 10),
		}},
		{"a refund does not open a window", fixed(10, m), []step{
			allow(0, 3, 7), refund(m, 0), peek(m, 10, 0, 0),
		}},
		{"a refund leaves the end of the window", fixed(10, m), []step{
			allow(0, 10, 0), refund(20*s, 0), expires(20*s, 40_000, 40_000), peek(20*s, 10, 0, 40*s),
		}},
		{"a window started again is another", restarting(3, m), []step{
			allow(0, 3, 0), deny(s, 1, 0, m), refund(s, 0), deny(s, 1, 0, m),
		}},
		{"a refund under another limit", fixed(10, m), []step{
			allow(0, 3, 7), allowUnder(fixed(5, m), s, 1, 1), refund(2*s, 0), allowUnder(fixed(5, m), 2*s, 0, 4),
		}},
		{"a refund, when the window was cut shorter", fixed(10, m), []step{
			allow(0, 3, 7), allowUnder(fixed(10, 10*s), s, 1, 6), refund(2*s, 0), allowUnder(fixed(10, 10*s), 2*s, 0, 6),
		}},
		{"a refund in the window after", sliding(10, m), []step{
			allow(0, 8, 2), allow(m+30*s, 1, 5), refund(m+30*s, 0), allow(m+30*s, 0, 9),
		}},
		{"a refund two windows after", sliding(10, m), []step{
			allow(0, 8, 2), allow(2*m, 5, 5), refund(2*m, 0), allow(2*m, 0, 5),
		}},
		{"a refund under windows of another length", sliding(10, m), []step{
			allow(0, 8, 2), allowUnder(sliding(10, h), 0, 1, 1), refund(0, 0), allowUnder(sliding(10, h), 0, 0, 1),
		}},
	}
}

// refundsOfBuckets are those of the plans that are refilled: what was earned again since does not come back twice.
func refundsOfBuckets() []scenario {
	var all []scenario
	for _, plan := range []ration.Plan{bucket(per(1, s), 10), gcra(per(1, s), 10)} {
		all = append(all,
			scenario{"a refund of what is partly earned again", plan, []step{
				allow(0, 3, 7), refund(500*ms, 0), peek(500*ms, 10, 0, 0),
			}},
			scenario{"a refund of what is earned again", plan, []step{
				allow(0, 3, 7), allow(3*s, 10, 0), refund(4*s, 0), deny(4*s, 2, 1, s),
			}},
			scenario{"a refund while others take", plan, []step{
				allow(0, 10, 0), allow(2*s, 2, 0), refund(4*s, 0), peek(4*s, 8, 0, 2*s), allow(4*s, 8, 0),
			}},
			scenario{"a refund where others took all since", plan, []step{
				allow(0, 2, 8), allow(0, 8, 0), refund(s, 0), allow(s, 2, 0), deny(s, 1, 0, s),
			}},
			scenario{"refunds that overlap give back no more than one after the other", plan, []step{
				allow(0, 5, 5), allow(0, 5, 0), refund(0, 0), allow(5*s, 5, 5), refund(5*s, 1), allow(5*s, 5, 0), deny(5*s, 1, 0, s),
			}},
			scenario{"a refund and a clock set back behind its grant", plan, []step{
				allow(0, 10, 0), back(denies(-h, 1)), refund(-h, 0), denies(-h, 11-1),
			}},
		)
	}
	all[len(all)/2-1].steps = all[len(all)/2-1].steps[:2] // of a bucket they come back, for it earned nothing
	all[len(all)/2-1].steps = append(all[len(all)/2-1].steps, refund(-h, 0), allow(-h, 10, 0))
	return append(all,
		scenario{"a refund under a changed plan", bucket(per(1, s), 10), []step{
			allow(0, 10, 0), denyUnder(bucket(per(2, s), 10), 0, 1, 0, 500*ms), refund(0, 0),
			denyUnder(bucket(per(2, s), 10), 0, 1, 0, 500*ms),
		}},
		scenario{"a refund, when the plan was changed and changed back", bucket(per(1, s), 10), []step{
			allow(0, 10, 0), denyUnder(bucket(per(100, s), 10), 0, 1, 0, 10*ms), passUnder(bucket(per(100, s), 10), 100*ms, 0),
			allowUnder(bucket(per(1, s), 10), 100*ms, 10, 0), refund(100*ms, 0), deny(100*ms, 1, 0, s),
		}},
		scenario{"a refund of the request with which the plan changed", bucket(per(1, s), 10), []step{
			allow(0, 10, 0), allowUnder(bucket(per(2, s), 10), s, 1, 0), refund(s, 1), refund(s, 0),
			allowUnder(bucket(per(2, s), 10), s, 1, 0), denyUnder(bucket(per(2, s), 10), s, 1, 0, 500*ms),
		}},
		scenario{"refunds of very many units that overlap", bucket(per(1, us), 4<<40), []step{
			allow(0, 1<<40, 3<<40), allow(0, 3<<40, 0), refund(0, 0), refund(0, 1), peek(0, 4<<40, 0, 0),
		}},
		scenario{"refunds whose sum is beyond what is counted", bucket(per(1000, us), 1<<50), slices.Concat(
			[]step{allow(0, 1<<49, 1<<49), allow(0, 1<<49, 0), refund(0, 0)},
			slices.Concat(halves(7)...),
			[]step{allow(562949953422*us, 1<<50, 0), refund(562949953422*us, 1), deny(562949953422*us, 1, 0, us)},
		)},
		scenario{"a refund under a changed plan is that of its own", gcra(per(1, s), 10), []step{
			allow(0, 10, 0), allowUnder(gcra(per(2, s), 10), 0, 10, 0), refund(0, 0),
			denyUnder(gcra(per(2, s), 10), 0, 1, 0, 500*ms), allow(0, 10, 0),
		}},
		scenario{"a refund in parts of a token", bucket(per(3, 7*s), 10), []step{
			allow(0, 10, 0), allow(7*s, 3, 0), refund(7*s+us, 0), allow(7*s+us, 7, 0), deny(7*s+us, 1, 0, 2333334*us),
		}},
	)
}

func refundsOfLogs() []scenario {
	return []scenario{
		{"B99 refund counted twice", log(10, s), []step{
			allow(0, 1, 9), refund(0, 0), refund(0, 0), peek(0, 10, 0, 0),
			peek(1100*ms, 10, 0, 0), allow(1100*ms, 10, 0), deny(1100*ms, 1, 0, s),
		}},
		{"B99 refund counted twice, later", log(10, s), []step{
			allow(0, 4, 6), allow(100*ms, 3, 3), refund(500*ms, 0), refund(600*ms, 0), allow(600*ms, 7, 0),
			peek(s, 0, 100*ms, 600*ms), deny(s+50*ms, 1, 0, 50*ms), allow(s+100*ms, 3, 0),
		}},
		{"a refund goes where its grant was", log(10, s), []step{
			allow(0, 5, 5), allow(500*ms, 5, 0), refund(600*ms, 1), peek(600*ms, 5, 0, 400*ms), peek(s, 10, 0, 0),
		}},
		{"refunds in any order", log(10, s), []step{
			allow(0, 1, 9), allow(100*ms, 2, 7), allow(200*ms, 3, 4), allow(300*ms, 4, 0),
			refund(400*ms, 2), refund(400*ms, 0), refund(400*ms, 3), refund(400*ms, 1),
			peek(400*ms, 10, 0, 0), allow(400*ms, 10, 0), deny(999*ms, 1, 0, 401*ms),
		}},
		{"a refund of what is out", log(10, s), []step{
			allow(0, 5, 5), allow(500*ms, 5, 0), refund(s, 0), deny(s, 6, 5, 500*ms), allow(s, 5, 0),
		}},
		{"refunds and a clock set back", log(10, s), []step{
			allow(0, 5, 5), allow(500*ms, 4, 1), refund(500*ms, 1), back(allow(200*ms, 1, 4)), deny(200*ms, 5, 4, s),
		}},
		{"what is given back again and again leaves little behind", log(10, h), append(slices.Concat(churned(40)...),
			members(ms, 2), allow(s, 10, 0), members(s, 3), deny(s, 1, 0, h))},
		{"refunds beside each other, in any order", log(10, h), []step{
			allow(0, 2, 8), allow(us, 1, 7), allow(2*us, 3, 4), allow(3*us, 1, 3), allow(4*us, 2, 1),
			refund(s, 1), refund(s, 3), refund(s, 2), members(s, 4), allow(s, 0, 6),
			refund(s, 0), refund(s, 4), refund(s, 2), members(s, 2), peek(s, 10, 0, 0), allow(s, 10, 0),
		}},
		// Refunds of what was granted after are put behind it one by one; where they are many, they are forgotten with it.
		{"hundreds of refunds, the last first", log(600, s), slices.Concat(
			spread(300, ms), reversed(300, 400*ms),
			[]step{stored(peek(400*ms, 600, 0, 0)), stored(allow(400*ms, 600, 0)), stored(deny(400*ms, 1, 0, s))},
		)},
	}
}

// churned takes and gives back, n times.
func churned(n int) [][]step {
	var all [][]step
	for i := range n {
		at := time.Duration(i) * us
		all = append(all, []step{allow(at, 3, 7), refund(at, i)})
	}
	return all
}

// halves takes half of 2^50 units and gives it back, n times after two others.
func halves(n int) [][]step {
	var all [][]step
	for i := range n {
		all = append(all, []step{allow(0, 1<<49, 0), refund(0, 2+i)})
	}
	return all
}

// spread takes a unit n times, so far apart.
func spread(n int, apart time.Duration) []step {
	var steps []step
	for i := range n {
		steps = append(steps, passes(time.Duration(i)*apart, 1))
	}
	return steps
}

// reversed gives back the first n grants at a moment, the last first.
func reversed(n int, at time.Duration) []step {
	var steps []step
	for i := range n {
		steps = append(steps, refund(at, n-1-i))
	}
	return steps
}

// stored marks a step that needs a Redis.
func stored(s step) step {
	s.stored = true
	return s
}

// passes takes n units, which must be granted.
func passes(at time.Duration, n int64) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		require.True(r, r.take(ration.Request{Key: r.key, Cost: n}).Allowed, "at +%v", r.at)
	}}
}
