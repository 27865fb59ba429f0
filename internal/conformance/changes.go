package conformance

import (
	"slices"
	"time"

	"github.com/go-ration/ration"
)

// silence is where nothing is written.
func silence() []scenario {
	var all []scenario
	for _, plan := range []ration.Plan{
		fixed(3, m), aligned(3, m), sliding(3, m), log(3, m), bucket(per(1, 7*s), 3), gcra(per(1, 7*s), 3),
	} {
		one := scenario{"B21 a denial, a look and a peek write nothing", plan, []step{allow(0, 1, 2), allow(123*ms, 1, 1)}}
		for _, at := range []time.Duration{123 * ms, 200*ms + us, 300*ms + 2*us, 400*ms + 3*us, 6 * s} {
			one.steps = append(one.steps, silent(denies(at, 3)), silent(allow(at, 0, 1)), silent(peeks(at)))
		}
		all = append(all, one)
	}
	return all
}

func clocks() []scenario {
	const round = (1 << 52) / 999_983 * us // after which moments come round again
	return []scenario{
		{"B53 clock set back", bucket(per(1, s), 10), []step{
			allow(0, 3, 7), back(allow(-5*s, 1, 6)), allow(0, 1, 5), allow(1*s, 1, 5),
		}},
		{"B53 clock set back by an hour", bucket(per(1, s), 10), []step{
			allow(0, 10, 0), back(deny(-h, 1, 0, s)), allow(-h+1*s, 1, 0), allow(-h+2*s, 1, 0), deny(-h+2500*ms, 1, 0, 500*ms),
		}},
		{"clock set back further than the level is worth", bucket(per(1, s), 10), []step{
			// 7 tokens, 5 s ahead; after 4 are taken, the 3 left are worth 3 s: full again in 10 s, not in 12.
			allow(0, 3, 7), back(allow(-5*s, 4, 3)), peek(-5*s, 3, 0, 10*s), peek(-2*s, 3, 0, 7*s), peek(-1*s, 4, 0, 6*s),
		}},
		{"B53 clock set back", gcra(per(1, s), 10), []step{
			// It counts as units spent: 5 s are 5 of them, until the clock is there again.
			allow(0, 3, 7), back(allow(-5*s, 1, 1)), allow(0, 1, 5), allow(1*s, 1, 5),
		}},
		{"B53 clock set back by an hour", gcra(per(1, s), 10), []step{
			allow(0, 10, 0), back(deny(-h, 1, 0, s)), allow(-h+1*s, 1, 0), allow(-h+2*s, 1, 0), deny(-h+2500*ms, 1, 0, 500*ms),
		}},
		{"clock set back by less than the millisecond in which a key ends", gcra(per(10_000, s), 1), []step{
			allow(0, 1, 0), back(deny(-50*us, 1, 0, 100*us)), back(deny(-100*us, 1, 0, 100*us)), allow(0, 1, 0),
		}},
		{"clock set back, where moments come round again after 75 minutes", gcra(per(999_983, s), 100), []step{
			allow(0, 1, 99), back(deny(-2*h, 1, 0, 2*us)), peek(-2*h+10*us, 9, 0, 91*us),
		}},
		{"clock set back by a round of moments", gcra(per(999_983, s), 100), []step{
			allow(0, 1, 99), back(deny(-round, 1, 0, 2*us)), peek(-round+10*us, 9, 0, 91*us),
		}},
		{"clock set back by an hour, into what is spent of a round", gcra(per(999_983, s), 999_983_000), []step{
			allow(0, 999_983_000, 0), back(deny(-h, 1, 0, 2*us)), allow(-h+s, 999_983, 0),
		}},
		{"clock set back in a window of large numbers, and a lowered limit", sliding(3<<50, m), []step{
			allow(0, 3<<50, 0), allow(119*s, 5<<49, 506_654_958_079_180), back(denyUnder(sliding(100, m), 61*s, 1, 0, 119*s)),
		}},
		{"clock set back into the window before", sliding(10, 10*s), []step{
			allow(-s, 2, 8), allow(s, 4, 4), back(allow(-5*s, 1, 3)), peek(0, 3, 0, 10*s), allow(5*s, 3, 3),
		}},
		{"clock set back by an hour", sliding(10, 10*s), []step{
			allow(0, 10, 0), back(deny(-h, 1, 0, 11*s)), expires(-h, 20_000, 20_000), deny(-h+11*s-us, 1, 0, us), allow(-h+11*s, 1, 0),
		}},
		{"clock set back behind a log", log(2, 10*s), []step{
			allow(0, 1, 1), allow(s, 1, 0), back(deny(-5*s, 1, 0, 10*s)), members(-5*s, 1), expires(-5*s, 10_000, 10_000),
			deny(5*s-us, 1, 0, us), allow(5*s, 1, 1),
		}},
		{"clock set back far into a log", log(1000, 10*s), slices.Concat(
			[]step{allow(0, 1, 999)}, repeat(300, upTo(s, 1, 1, anyNumber, 0)),
			[]step{back(allow(500*ms, 1, 698)), deny(10_500*ms-us, 700, 698, us), allow(10_500*ms, 1, 999)},
		)},
		{"clock set back into a log", log(4, 10*s), []step{
			allow(0, 1, 3), allow(2*s, 1, 2), allow(3*s, 1, 1), back(peek(s, 1, 0, 10*s)), allow(s, 1, 0), members(s, 3),
			deny(9*s, 1, 0, s), allow(10*s, 1, 0), allow(11*s, 3, 0),
		}},
		{"clock set back in an open window", fixed(2, 10*s), []step{
			allow(0, 2, 0), back(deny(-5*s, 1, 0, 10*s)), deny(5*s-ms, 1, 0, ms), allow(5*s, 1, 1),
		}},
		{"clock set back before an open window", aligned(2, 10*s), []step{
			allow(0, 2, 0), back(deny(-5*s, 1, 0, 5*s)), allow(0, 1, 1),
		}},
		{"B55 calendar window ends when it says", aligned(5, m), []step{
			allow(30*s, 5, 0), deny(30*s+5*ms, 1, 0, 29_995*ms), allow(60*s+2*ms, 1, 4),
		}},
	}
}

// inTurn are plans that decide the same key in turn, as while they are being deployed: whoever takes a tenth of the quota is
// never denied.
func inTurn() []scenario {
	var all []scenario
	for _, plans := range [][2]ration.Plan{
		{fixed(100, 60*s), fixed(100, 50*s)},
		{sliding(100, 60*s), sliding(100, 50*s)},
		{sliding(100, m), sliding(100, h)},
		{log(100, 60*s), log(100, 50*s)},
		{bucket(per(100, 60*s), 100), bucket(per(100, 50*s), 80)},
		{gcra(per(100, 60*s), 100), gcra(per(100, 50*s), 80)},
	} {
		one := scenario{"plans in turn", plans[0], nil}
		for i := range 300 {
			n := int64(1)
			if plans[1] == ration.Plan(sliding(100, h)) {
				n = int64(i % 30 / 29) // a tenth of the lower one
			}
			one.steps = append(one.steps, passUnder(plans[i%2], time.Duration(6*i)*s, n))
		}
		all = append(all, one)
	}
	return all
}

// changes are of plans, on state that another plan left.
func changes() []scenario {
	return []scenario{
		{"B79 shorter window", fixed(5, m), []step{
			allow(0, 5, 0),
			denyUnder(fixed(5, 10*s), 1*s, 1, 0, 10*s),
			allowUnder(fixed(5, 10*s), 11*s+2*ms, 1, 4),
		}},
		{"longer window keeps the end of the open one", fixed(5, 10*s), []step{
			allow(0, 5, 0), denyUnder(fixed(5, m), 1*s, 1, 0, 9*s), allowUnder(fixed(5, m), 10*s, 1, 4), expires(10*s, 60_000, 60_000),
		}},
		{"aligned window cuts one that is not", fixed(5, m), []step{
			allow(30*s, 5, 0), denyUnder(aligned(5, m), 40*s, 1, 0, 20*s), allowUnder(aligned(5, m), m, 1, 4),
		}},
		{"B79 shorter window", log(5, m), []step{
			allow(0, 5, 0),
			denyUnder(log(5, 10*s), 1*s, 1, 0, 9*s),
			allowUnder(log(5, 10*s), 11*s+2*ms, 1, 4),
		}},
		{"B79 shorter window", sliding(5, m), []step{
			// The five count in the open window of 10 s, and weigh four from a fifth of the next one on.
			allow(0, 5, 0),
			denyUnder(sliding(5, 10*s), 1*s, 1, 0, 11*s),
			denyUnder(sliding(5, 10*s), 12*s-us, 1, 0, us),
			allowUnder(sliding(5, 10*s), 12*s, 1, 0),
		}},
		{"longer window of a log", log(5, 10*s), []step{
			allow(0, 5, 0), denyUnder(log(5, m), 1*s, 1, 0, 59*s), denyUnder(log(5, m), m-us, 1, 0, us), allowUnder(log(5, m), m, 1, 4),
		}},
		{"longer sliding window", sliding(5, 10*s), []step{
			// At 15 s half of the five count, rounded up; in the open minute that is the weight of four.
			allow(0, 5, 0), denyUnder(sliding(5, m), 15*s, 3, 2, 15*s), allowUnder(sliding(5, m), 15*s, 2, 0),
			expires(15*s, 105_000, 105_000),
		}},
		{"B81 raised limit", log(10, h), slices.Concat(
			[]step{allow(0, 10, 0)}, repeat(40, deny(0, 1, 0, h)),
			[]step{allowUnder(log(20, h), 0, 9, 1), allowUnder(log(20, h), 0, 1, 0), denyUnder(log(20, h), 0, 1, 0, h)},
		)},
		{"B81 raised limit", sliding(10, m), slices.Concat(
			[]step{allow(0, 10, 0)}, repeat(40, deny(0, 1, 0, 66*s)),
			[]step{allowUnder(sliding(20, m), 0, 9, 1), allowUnder(sliding(20, m), 0, 1, 0), denyUnder(sliding(20, m), 0, 1, 0, 63*s)},
		)},
		{"lowered limit", log(10, h), []step{allow(0, 7, 3), denyUnder(log(5, h), 0, 1, 0, h), allow(0, 3, 0)}},
		{"lowered limit", sliding(10, m), []step{
			// Seven weigh four from 3/7 of the next window on.
			allow(0, 7, 3), denyUnder(sliding(5, m), 0, 1, 0, 85_714_286*us), allow(0, 3, 0),
		}},
		{"a changed GCRA starts afresh", gcra(per(1, s), 5), []step{
			allow(0, 5, 0), allowUnder(gcra(per(1, s), 10), 0, 4, 6), allowUnder(gcra(per(2, s), 5), 0, 4, 1), deny(0, 1, 0, s),
			allowUnder(gcra(per(10, 10*s), 10), 0, 1, 5),
		}},
		{"B81 raised limit", fixed(10, h), slices.Concat(
			[]step{allow(0, 10, 0)}, repeat(40, deny(0, 1, 0, h)),
			[]step{allowUnder(fixed(20, h), 0, 9, 1), allowUnder(fixed(20, h), 0, 1, 0), denyUnder(fixed(20, h), 0, 1, 0, h)},
		)},
		{"lowered limit", fixed(10, h), []step{allow(0, 7, 3), denyUnder(fixed(5, h), 0, 1, 0, h), allow(0, 3, 0)}},
		{"raised burst", bucket(per(1, s), 2), []step{
			// The level stays; only time fills the new room.
			allow(0, 2, 0), denyUnder(bucket(per(1, s), 10), 1*s, 2, 1, s), allowUnder(bucket(per(1, s), 10), 2*s, 2, 0),
		}},
		{"raised burst on a key that would expire", bucket(per(1, s), 2), []step{
			allow(0, 2, 0), denyUnder(bucket(per(1, s), 10), 1*s, 5, 1, 4*s),
			denyUnder(bucket(per(1, s), 10), 5*s-us, 5, 4, us), allowUnder(bucket(per(1, s), 10), 5*s, 5, 0),
		}},
		{"a smaller burst does not let the key go", bucket(per(1, s), 1000), []step{
			allow(0, 1000, 0),
			allowUnder(bucket(per(1, s), 5), 1*s, 1, 0), expires(1*s, 999_000, 999_001),
			deny(6100*ms, 1000, 5, 994_900*ms), allow(7*s, 1, 5),
		}},
		{"lowered burst", bucket(per(1, s), 10), []step{
			allow(0, 1, 9), allowUnder(bucket(per(1, s), 2), 0, 1, 1), allow(0, 1, 0),
		}},
		{"raised rate", bucket(ration.PerDay(1), 1), []step{
			// Half a token is earned at the old rate; the rest comes at the new one, from the first request under it.
			allow(0, 1, 0),
			denyUnder(bucket(per(1, s), 1), 12*h, 1, 0, 500*ms),
			denyUnder(bucket(per(1, s), 1), 12*h+499_999*us, 1, 0, us),
			allowUnder(bucket(per(1, s), 1), 12*h+500*ms, 1, 0),
		}},
		{"lowered rate", bucket(per(1, s), 1), []step{
			allow(0, 1, 0),
			denyUnder(bucket(per(1, m), 1), 500*ms, 1, 0, 30*s),
			denyUnder(bucket(per(1, m), 1), 30*s, 1, 0, 500*ms),
			allowUnder(bucket(per(1, m), 1), 30_500*ms, 1, 0),
		}},
		{"changed rate rounds down", bucket(per(7, s), 1), []step{
			// After 1 us the level is 7/1000000 of a token: less than 1/500, the least part of one at the new rate.
			allow(0, 1, 0),
			denyUnder(bucket(per(2000, s), 1), 1*us, 1, 0, 500*us),
		}},
	}
}
