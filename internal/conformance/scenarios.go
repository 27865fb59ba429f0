package conformance

import (
	"slices"
	"time"

	"github.com/go-ration/ration"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
	s  = time.Second
	m  = time.Minute
	h  = time.Hour
)

func fixed(limit int64, window time.Duration) ration.FixedWindow {
	return ration.FixedWindow{Limit: limit, Window: window}
}

func aligned(limit int64, window time.Duration) ration.FixedWindow {
	return ration.FixedWindow{Limit: limit, Window: window, Aligned: true}
}

func restarting(limit int64, window time.Duration) ration.FixedWindow {
	return ration.FixedWindow{Limit: limit, Window: window, RestartOnDeny: true}
}

func bucket(rate ration.Rate, burst int64) ration.TokenBucket {
	return ration.TokenBucket{Rate: rate, Burst: burst}
}

func per(units int64, span time.Duration) ration.Rate { return ration.Rate{Units: units, Per: span} }

// scenarios are named by the fault they guard against; those of a number are listed under it in docs/behaviours.md.
func scenarios() []scenario {
	return slices.Concat(lifetimes(), numbers(), counting(), waits(), extremes(), clocks(), changes())
}

func lifetimes() []scenario {
	return []scenario{
		{"B01 lifetime rounded to nothing", bucket(per(1000, s), 5), []step{
			allow(0, 5, 0), expires(0, 5, 6), absent(1 * s),
		}},
		{"B03 key without a lifetime", fixed(5, m), []step{
			allow(0, 3, 2), persist(0),
			allow(0, 1, 1), expires(0, 1, 60_000),
			allow(60*s+2*ms, 1, 4),
		}},
		{"B03 key without a lifetime, denied", fixed(3, m), []step{
			allow(0, 3, 0), persist(0),
			deny(0, 1, 0, m), expires(0, 1, 60_000),
		}},
		{"B03 key without a lifetime", aligned(5, m), []step{
			allow(30*s, 3, 2), persist(30 * s),
			allow(40*s, 1, 1), expires(40*s, 19_999, 20_000),
			allow(60*s+2*ms, 1, 4),
		}},
		{"B03 key without a lifetime", bucket(per(1, s), 5), []step{
			allow(0, 5, 0), persist(0),
			deny(0, 1, 0, s), expires(0, 5000, 5001),
			persist(0), allow(s, 1, 0), expires(s, 5000, 5001),
		}},
		{"B05 window extended by every hit", fixed(3, 10*s), []step{
			allow(0, 1, 2), allow(4*s, 1, 1), allow(8*s, 1, 0), deny(9*s, 1, 0, s), allow(10*s+2*ms, 1, 2),
		}},
		{"B07 lifetime too short", bucket(per(1, 15*s), 3), []step{
			allow(0, 3, 0), expires(0, 45_000, 45_001), deny(10*s, 1, 0, 5*s), allow(15*s, 1, 0),
		}},
		{"B09 window extended at its very end", fixed(2, s), []step{
			allow(0, 2, 0),
			expires(998*ms, 2, 2), deny(998*ms, 1, 0, 2*ms),
			expires(999*ms, 1, 1), deny(999*ms, 1, 0, ms),
			allow(1000*ms, 1, 1), expires(1000*ms, 1000, 1000),
			allow(1002*ms, 1, 0),
		}},
		{"B09 window extended at its very end", aligned(2, s), []step{
			allow(0, 2, 0), deny(999*ms, 1, 0, ms), allow(1000*ms, 1, 1), allow(1002*ms, 1, 0), deny(1003*ms, 1, 0, 997*ms),
		}},
		{"window restarted by a denial, at its very end", restarting(2, s), []step{
			allow(0, 2, 0), deny(999*ms, 1, 0, s), deny(1998*ms, 1, 0, s), allow(2998*ms, 1, 1),
		}},
	}
}

func numbers() []scenario {
	var steps []step
	for i := range 4000 {
		at := time.Duration(i) * 250 * us
		if i%2 == 0 {
			steps = append(steps, allow(at, 1, 0))
		} else {
			steps = append(steps, deny(at, 1, 0, 250*us))
		}
	}
	return []scenario{
		{"B13 fractional lifetime", bucket(per(3, s), 1), []step{allow(0, 1, 0), expires(0, 334, 335)}},
		{"B15 large numbers", fixed(5, 1_000_000*ms), []step{allow(0, 1, 4), expires(0, 1, 1_000_000)}},
		{"B15 large numbers", fixed(5, 86_400_000*ms), []step{allow(0, 1, 4), expires(0, 1, 86_400_000)}},
		{"B15 large numbers", aligned(1_000_000_000_000_000, 1_000_000*ms), []step{
			allow(0, 999_999_999_999_999, 1), allow(0, 1, 0), expires(0, 1, 1_000_000),
		}},
		{"B15 large numbers", bucket(per(1, s), 1_000_000_000), []step{
			allow(0, 999_999_999, 1), allow(0, 1, 0), expires(0, 1_000_000_000_000, 1_000_000_000_001),
			deny(1*us, 1_000_000_000, 0, 1_000_000_000*s-us),
		}},
		{"B17 seconds and microseconds glued together", bucket(per(10_000, s), 1), []step{
			allow(999*us, 1, 0), deny(1000*us, 1, 0, 99*us), deny(1098*us, 1, 0, us), allow(1099*us, 1, 0),
		}},
		{"B41 rates above 1000 a second", bucket(per(2000, s), 1), []step{allow(0, 1, 0), deny(0, 1, 0, 500*us)}},
		{"B41 rates above 1000 a second, often asked", bucket(per(2000, s), 1), steps},
		{"seventh of a second", bucket(per(7, s), 2), []step{
			allow(0, 2, 0), deny(142_857*us, 1, 0, us), allow(142_858*us, 1, 0),
			// The part of a token that the last microsecond brought beyond the whole one is not lost.
			deny(285_714*us, 1, 0, us), allow(285_715*us, 1, 0), allow(428_572*us, 1, 0),
		}},
		{"one a day", bucket(ration.PerDay(1), 1), []step{
			allow(0, 1, 0), deny(24*h-us, 1, 0, us), allow(24*h, 1, 0),
		}},
	}
}

func counting() []scenario {
	polled := func(plan ration.Plan) scenario {
		return scenario{"B21 denied requests counted", plan, []step{
			allow(0, 1, 1), allow(1*s, 1, 0), deny(2*s, 1, 0, 2*s), deny(3*s, 1, 0, 1*s),
			allow(4*s, 1, 1), allow(5*s, 1, 0), deny(6*s, 1, 0, 2*s), deny(7*s, 1, 0, 1*s), allow(8*s, 1, 1),
		}}
	}
	one := func(plan ration.Plan, retry time.Duration) scenario {
		return scenario{"B25 one request too few", plan, []step{
			allow(0, 1, 4), allow(0, 1, 3), allow(0, 1, 2), allow(0, 1, 1), allow(0, 1, 0), deny(0, 1, 0, retry),
		}}
	}
	whole := scenario{"B23 Retry-After always the whole window", fixed(10, m), nil}
	for i := range int64(10) {
		whole.steps = append(whole.steps, allow(time.Duration(2*i)*s, 1, 9-i))
	}
	whole.steps = append(whole.steps, deny(20*s, 1, 0, 40*s))

	return []scenario{
		polled(fixed(2, 4*s)), polled(aligned(2, 4*s)),
		{"B21 denied requests counted", bucket(per(1, 2*s), 1), []step{
			allow(0, 1, 0), deny(1*s, 1, 0, s), allow(2*s, 1, 0), deny(3*s, 1, 0, s), allow(4*s, 1, 0),
		}},
		{"every denial starts the window again", restarting(2, 4*s), []step{
			allow(0, 1, 1), allow(1*s, 1, 0), deny(2*s, 1, 0, 4*s), deny(5*s, 1, 0, 4*s), peek(8*s, 0, 1*s, 1*s), allow(9*s, 1, 1),
		}},
		{"a look at a window that denials start again", restarting(2, 4*s), []step{
			allow(0, 2, 0), allow(1*s, 0, 0), upTo(1*s, 0, 0, 0, 0), allow(4*s, 1, 1),
		}},
		{"what fits of a request, in a window that denials start again", restarting(3, 4*s), []step{
			allow(0, 1, 2), upTo(1*s, 5, 2, 0, 0), upTo(2*s, 5, 0, 0, 4*s), allow(6*s, 1, 2),
		}},
		whole,
		one(fixed(5, 5*s), 5*s), one(aligned(5, 5*s), 5*s), one(restarting(5, 5*s), 5*s), one(bucket(per(1, s), 5), s),
		{"all or nothing", fixed(5, m), []step{allow(0, 3, 2), deny(0, 3, 2, m), allow(0, 2, 0)}},
		{"all or nothing", bucket(per(1, s), 5), []step{allow(0, 3, 2), deny(0, 3, 2, s), allow(0, 2, 0)}},
		{"what fits", fixed(5, m), []step{
			upTo(0, 3, 3, 2, 0), upTo(0, 3, 2, 0, 0), upTo(s, 3, 0, 0, 59*s), upTo(m, 100, 5, 0, 0),
		}},
		{"what fits", bucket(per(1, s), 5), []step{
			upTo(0, 3, 3, 2, 0), upTo(0, 3, 2, 0, 0), upTo(200*ms, 3, 0, 0, 800*ms), upTo(m, 100, 5, 0, 0),
		}},
		{"a peek takes nothing", fixed(2, m), []step{
			peek(0, 2, 0, 0), absent(0), allow(0, 2, 0), peek(10*s, 0, 50*s, 50*s), peek(m, 2, 0, 0), allow(m, 2, 0),
		}},
		{"a peek takes nothing", aligned(2, m), []step{
			peek(20*s, 2, 0, 0), absent(20 * s), allow(20*s, 2, 0), peek(30*s, 0, 30*s, 30*s), peek(m, 2, 0, 0),
		}},
		{"a peek takes nothing", bucket(per(1, s), 2), []step{
			peek(0, 2, 0, 0), absent(0), allow(0, 2, 0), peek(300*ms, 0, 700*ms, 1700*ms), peek(2*s, 2, 0, 0), allow(2*s, 2, 0),
		}},
	}
}

func waits() []scenario {
	busy := scenario{"B35 busy key earns nothing", bucket(per(10, 30*s), 10), nil}
	for i, remaining := range []int64{9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2, 1, 1, 0} {
		busy.steps = append(busy.steps, allow(time.Duration(i)*s, 1, remaining))
	}
	busy.steps = append(busy.steps, deny(14*s, 1, 0, s), allow(15*s, 1, 0))

	return []scenario{
		{"B31 wait rounded down", bucket(per(1, 1500*ms), 1), []step{
			allow(0, 1, 0), deny(0, 1, 0, 1500*ms), allow(2*s, 1, 0),
		}},
		{"B33 wait ignores what is earned", bucket(per(1, s), 1), []step{allow(0, 1, 0), deny(200*ms, 1, 0, 800*ms)}},
		{"B33 wait ignores what is earned", bucket(per(1, m), 5), []step{allow(0, 5, 0), deny(59*s, 1, 0, s)}},
		busy,
		{"B35 busy key earns nothing", bucket(per(1, s), 1), []step{
			allow(0, 1, 0), deny(600*ms, 1, 0, 400*ms), allow(1200*ms, 1, 0),
			deny(1800*ms, 1, 0, 400*ms), allow(2400*ms, 1, 0), deny(3000*ms, 1, 0, 400*ms),
		}},
		{"B37 remaining above the limit", bucket(per(10, 10*s), 10), []step{
			allow(0, 1, 9), allow(100*s, 1, 9), peek(200*s, 10, 0, 0),
		}},
		{"B37 remaining above the limit", fixed(10, 10*s), []step{allow(0, 1, 9), allow(100*s, 1, 9), peek(200*s, 10, 0, 0)}},
	}
}

func extremes() []scenario {
	negative := func(plan ration.Plan) scenario {
		return scenario{"B47 negative cost", plan, []step{invalid(0, -1), allow(0, 1, 9)}}
	}
	look := func(plan ration.Plan) []scenario {
		return []scenario{
			{"B49 cost 0 taken for 1", plan, slices.Concat(
				[]step{allow(0, 3, 7)}, repeat(5, allow(0, 0, 7)), []step{allow(0, 1, 6), allow(0, 6, 0), allow(0, 0, 0)},
			)},
			{"B49 cost 0 on a fresh key", plan, []step{allow(0, 0, 10), absent(0)}},
		}
	}
	return slices.Concat([]scenario{
		{"B39 long idle", bucket(per(1000, s), 100), []step{
			allow(0, 1, 99), persist(0), allow(12*h, 1, 99), persist(12 * h), allow(365*24*h, 1, 99),
		}},
		{"B45 cost above capacity", bucket(per(10, s), 5), []step{allow(0, 1, 4), never(10*s, 6), allow(10*s, 5, 0)}},
		{"B45 cost above capacity", fixed(5, 10*s), []step{allow(0, 1, 4), never(10*s, 6), allow(10*s, 5, 0)}},
		negative(fixed(10, h)), negative(aligned(10, h)), negative(restarting(10, h)), negative(bucket(per(10, h), 10)),
	},
		look(fixed(10, m)), look(aligned(10, m)), look(restarting(10, m)), look(bucket(per(1, m), 10)),
	)
}

func clocks() []scenario {
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
