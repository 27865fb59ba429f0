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

func sliding(limit int64, window time.Duration) ration.SlidingWindow {
	return ration.SlidingWindow{Limit: limit, Window: window}
}

func log(limit int64, window time.Duration) ration.SlidingLog {
	return ration.SlidingLog{Limit: limit, Window: window}
}

func gcra(rate ration.Rate, burst int64) ration.GCRA {
	return ration.GCRA{Rate: rate, Burst: burst}
}

func per(units int64, span time.Duration) ration.Rate { return ration.Rate{Units: units, Per: span} }

// scenarios are named by the fault they guard against; those of a number are listed under it in docs/behaviours.md.
func scenarios() []scenario {
	return slices.Concat(lifetimes(), numbers(), odd(), counting(), silence(), waits(), extremes(), clocks(), changes(), inTurn(), refunds())
}

func lifetimes() []scenario {
	return []scenario{
		{"B01 lifetime rounded to nothing", bucket(per(1000, s), 5), []step{
			allow(0, 5, 0), expires(0, 5, 6), absent(1 * s),
		}},
		{"B01 lifetime rounded to nothing", gcra(per(1000, s), 5), []step{
			allow(0, 5, 0), expires(0, 5, 6), absent(1 * s),
		}},
		{"B01 lifetime rounded to nothing", log(5, 5*ms), []step{
			allow(0, 5, 0), expires(0, 5, 6), absent(1 * s),
		}},
		{"B01 lifetime rounded to nothing", sliding(5, 5*ms), []step{
			allow(0, 5, 0), expires(0, 10, 10), absent(1 * s),
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
		{"B03 key without a lifetime", gcra(per(1, s), 5), []step{
			allow(0, 5, 0), persist(0),
			deny(0, 1, 0, s), expires(0, 5000, 5001),
			persist(0), allow(s, 1, 0), expires(s, 5000, 5001),
		}},
		{"B03 key without a lifetime", sliding(5, m), []step{
			allow(10*s, 3, 2), persist(10 * s),
			deny(20*s, 3, 2, 60*s), expires(20*s, 100_000, 100_000),
			persist(30 * s), allow(30*s, 2, 0), expires(30*s, 90_000, 90_000),
		}},
		{"B03 key without a lifetime", log(5, m), []step{
			allow(10*s, 3, 2), persist(10 * s),
			deny(20*s, 3, 2, 50*s), expires(20*s, 50_000, 50_000),
			persist(30 * s), allow(30*s, 2, 0), expires(30*s, 60_000, 60_000),
			persist(30 * s), allow(95*s, 0, 5), expires(95*s, 0, 1),
		}},
		{"B05 window extended by every hit", fixed(3, 10*s), []step{
			allow(0, 1, 2), allow(4*s, 1, 1), allow(8*s, 1, 0), deny(9*s, 1, 0, s), allow(10*s+2*ms, 1, 2),
		}},
		{"B07 lifetime too short", bucket(per(1, 15*s), 3), []step{
			allow(0, 3, 0), expires(0, 45_000, 45_001), deny(10*s, 1, 0, 5*s), allow(15*s, 1, 0),
		}},
		{"B07 lifetime too short", gcra(per(1, 15*s), 3), []step{
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
		{"B11 history lost at window change", sliding(10, m), slices.Concat(
			[]step{allow(0, 1, 9)}, countdown(59*s, 9),
			[]step{deny(61*s, 1, 0, 5*s), allow(66*s, 1, 0), expires(66*s, 114_000, 114_000)},
		)},
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
		{"B13 fractional lifetime", gcra(per(3, s), 1), []step{allow(0, 1, 0), expires(0, 334, 335)}},
		{"B13 fractional lifetime", log(1, 3*ms), []step{allow(500*us, 1, 0), expires(500*us, 3, 4), deny(3499*us, 1, 0, us), allow(3500*us, 1, 0)}},
		{"B15 large numbers", fixed(5, 1_000_000*ms), []step{allow(0, 1, 4), expires(0, 1, 1_000_000)}},
		{"B15 large numbers", fixed(5, 86_400_000*ms), []step{allow(0, 1, 4), expires(0, 1, 86_400_000)}},
		{"B15 large numbers", aligned(1_000_000_000_000_000, 1_000_000*ms), []step{
			allow(0, 999_999_999_999_999, 1), allow(0, 1, 0), expires(0, 1, 1_000_000),
		}},
		{"B15 large numbers", bucket(per(1, s), 1_000_000_000), []step{
			allow(0, 999_999_999, 1), allow(0, 1, 0), expires(0, 1_000_000_000_000, 1_000_000_000_001),
			deny(1*us, 1_000_000_000, 0, 1_000_000_000*s-us),
		}},
		{"B15 large numbers", gcra(per(1, s), 1_000_000_000), []step{
			allow(0, 999_999_999, 1), allow(0, 1, 0), expires(0, 1_000_000_000_000, 1_000_000_000_001),
			deny(1*us, 1_000_000_000, 0, 1_000_000_000*s-us),
		}},
		{"B15 large numbers", sliding(5, 86_400_000*ms), []step{allow(0, 1, 4), expires(0, 86_400_000, 2*86_400_000)}},
		{"B15 large numbers", sliding(1_000_000_000_000_000, 1_000_000*ms), []step{
			// T0 is 40 s into a window.
			allow(0, 999_999_999_999_999, 1), allow(0, 1, 0),
			// A millionth of the window later than its start, the previous one weighs all but a millionth.
			allow(960*s+ms, 1_000_000_000, 0), deny(960*s+ms, 1, 0, us),
		}},
		{"B15 large numbers", log(100_000, 86_400_000*ms), []step{
			allow(0, 99_999, 1), allow(0, 1, 0), expires(0, 86_401_000, 86_401_000), deny(1*us, 100_000, 0, 86_400*s-us),
		}},
		{"B17 seconds and microseconds glued together", bucket(per(10_000, s), 1), []step{
			allow(999*us, 1, 0), deny(1000*us, 1, 0, 99*us), deny(1098*us, 1, 0, us), allow(1099*us, 1, 0),
		}},
		{"B17 seconds and microseconds glued together", gcra(per(10_000, s), 1), []step{
			allow(999*us, 1, 0), deny(1000*us, 1, 0, 99*us), deny(1098*us, 1, 0, us), allow(1099*us, 1, 0),
		}},
		{"B41 rates above 1000 a second", bucket(per(2000, s), 1), []step{allow(0, 1, 0), deny(0, 1, 0, 500*us)}},
		{"B41 rates above 1000 a second", gcra(per(2000, s), 1), []step{allow(0, 1, 0), deny(0, 1, 0, 500*us)}},
		{"B41 rates above 1000 a second, often asked", bucket(per(2000, s), 1), steps},
		{"B41 rates above 1000 a second, often asked", gcra(per(2000, s), 1), steps},
	}
}

// odd are rates whose tokens fall on no whole microseconds, or are rare.
func odd() []scenario {
	seventh := []step{
		allow(0, 2, 0), deny(142_857*us, 1, 0, us), allow(142_858*us, 1, 0),
		// The part of a token that the last microsecond brought beyond the whole one is not lost.
		deny(285_714*us, 1, 0, us), allow(285_715*us, 1, 0), allow(428_572*us, 1, 0),
	}
	eleventh := []step{
		allow(0, 1, 0), deny(90_909*us, 1, 0, us), allow(90_910*us, 1, 0), deny(181_818*us, 1, 0, 2*us), allow(181_820*us, 1, 0),
	}
	sixtySevenths := []step{
		allow(0, 60, 0), deny(116_666*us, 1, 0, us), allow(116_667*us, 1, 0), allow(7*s, 59, 0), deny(7*s, 60, 0, 7*s),
	}
	third := []step{allow(0, 3, 0), deny(333_333*us, 1, 0, us), allow(333_334*us, 1, 0), allow(s, 2, 0), deny(s, 3, 0, s)}
	daily := []step{allow(0, 1, 0), deny(24*h-us, 1, 0, us), allow(24*h, 1, 0)}
	return []scenario{
		{"seventh of a second", bucket(per(7, s), 2), seventh},
		{"seventh of a second", gcra(per(7, s), 2), seventh},
		{"eleventh of a second", bucket(per(11, s), 1), eleventh},
		{"eleventh of a second", gcra(per(11, s), 1), eleventh},
		{"sixty in seven seconds", bucket(per(60, 7*s), 60), sixtySevenths},
		{"sixty in seven seconds", gcra(per(60, 7*s), 60), sixtySevenths},
		{"third of a second", bucket(per(3, s), 3), third},
		{"third of a second", gcra(per(3, s), 3), third},
		{"one a day", bucket(ration.PerDay(1), 1), daily},
		{"one a day", gcra(ration.PerDay(1), 1), daily},
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
	var whole []step
	for i := range int64(10) {
		whole = append(whole, allow(time.Duration(2*i)*s, 1, 9-i))
	}
	whole = append(whole, deny(20*s, 1, 0, 40*s))

	return []scenario{
		{"B19 requests of one instant", log(5, m), slices.Concat(
			countdown(0, 5), repeat(3, deny(0, 1, 0, m)), []step{members(0, 5)},
		)},
		{"B19 requests of one instant, weighted", log(5, m), []step{allow(0, 4, 1), deny(0, 2, 1, m), members(0, 1)}},
		{"B27 weights ignored", log(10, m), []step{
			allow(0, 8, 2), deny(s, 3, 2, 59*s), allow(2*s, 2, 0), deny(3*s, 1, 0, 57*s),
		}},
		{"wait for the sum of the oldest costs", log(10, m), []step{
			allow(0, 3, 7), allow(1*s, 1, 6), allow(2*s, 4, 2), allow(3*s, 2, 0),
			deny(10*s, 1, 0, 50*s), deny(10*s, 3, 0, 50*s), deny(10*s, 4, 0, 51*s), deny(10*s, 5, 0, 52*s),
			deny(10*s, 8, 0, 52*s), deny(10*s, 9, 0, 53*s), deny(10*s, 10, 0, 53*s),
			deny(60*s, 5, 3, 2*s), allow(60*s, 3, 0), deny(60*s, 10, 0, m), peek(60*s, 0, s, m),
		}},
		{"a grant is out when it is one window old", log(1, s), []step{
			allow(0, 1, 0), deny(s-us, 1, 0, us), allow(s, 1, 0), deny(2*s-us, 1, 0, us), members(2*s-us, 1),
		}},
		{"what is out goes when something is granted", log(3, s), []step{
			allow(0, 1, 2), allow(100*ms, 1, 1), allow(200*ms, 1, 0), deny(1050*ms, 2, 1, 50*ms), members(1050*ms, 3),
			allow(1150*ms, 2, 0), members(1150*ms, 2), allow(9*s, 1, 2), members(9*s, 1),
		}},
		polled(fixed(2, 4*s)), polled(aligned(2, 4*s)),
		{"B21 denied requests counted", log(2, 4*s), []step{
			allow(0, 1, 1), allow(1*s, 1, 0), deny(2*s, 1, 0, 2*s), deny(3*s, 1, 0, 1*s),
			allow(4*s, 1, 0), allow(5*s, 1, 0), deny(6*s, 1, 0, 2*s), deny(7*s, 1, 0, 1*s), allow(8*s, 1, 0),
		}},
		{"B21 denied requests counted", gcra(per(1, 2*s), 1), []step{
			allow(0, 1, 0), deny(1*s, 1, 0, s), allow(2*s, 1, 0), deny(3*s, 1, 0, s), allow(4*s, 1, 0),
		}},
		{"B21 denied requests counted", sliding(2, 4*s), []step{
			// Half of the previous window's two weigh one at 6 s, and nothing at 8 s but what was granted since.
			allow(0, 1, 1), allow(1*s, 1, 0), deny(2*s, 1, 0, 4*s), deny(3*s, 1, 0, 3*s), deny(5*s, 1, 0, 1*s),
			allow(6*s, 1, 0), deny(7*s, 1, 0, 1*s), allow(8*s, 1, 0),
		}},
		{"B29 fraction of the previous window", sliding(1, s), []step{
			allow(500*ms, 1, 0), deny(1100*ms, 1, 0, 900*ms), deny(1500*ms, 1, 0, 500*ms), allow(2*s, 1, 0),
		}},
		{"the weight of a third, to the microsecond", sliding(3, s), []step{
			// Three weigh two from a third of the window on, which is no whole microsecond.
			allow(900*ms, 3, 0), deny(1333_333*us, 1, 0, us), allow(1333_334*us, 1, 0), deny(1666_666*us, 1, 0, us),
			allow(1666_667*us, 1, 0), peek(1666_667*us, 0, 333_333*us, 1333_333*us),
		}},
		{"two windows without a request", sliding(3, s), []step{
			allow(0, 3, 0), expires(0, 2000, 2000), peek(1500*ms, 1, 0, 500*ms), peek(2*s, 3, 0, 0), allow(2*s, 3, 0),
			absent(4*s + ms), allow(9*s, 3, 0),
		}},
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
		{"B23 Retry-After always the whole window", fixed(10, m), whole},
		{"B23 Retry-After always the whole window", log(10, m), whole},
		one(fixed(5, 5*s), 5*s), one(aligned(5, 5*s), 5*s), one(restarting(5, 5*s), 5*s), one(bucket(per(1, s), 5), s),
		one(sliding(5, 5*s), 6*s), one(log(5, 5*s), 5*s), one(gcra(per(1, s), 5), s),
		{"all or nothing", sliding(5, m), []step{allow(0, 3, 2), deny(0, 3, 2, 80*s), allow(0, 2, 0)}},
		{"all or nothing", log(5, m), []step{allow(0, 3, 2), deny(0, 3, 2, m), allow(0, 2, 0)}},
		{"all or nothing", gcra(per(1, s), 5), []step{allow(0, 3, 2), deny(0, 3, 2, s), allow(0, 2, 0)}},
		{"what fits", sliding(5, m), []step{
			upTo(0, 3, 3, 2, 0), upTo(0, 3, 2, 0, 0), upTo(s, 3, 0, 0, 71*s), upTo(2*m, 100, 5, 0, 0),
		}},
		{"what fits", log(5, m), []step{
			upTo(0, 3, 3, 2, 0), upTo(0, 3, 2, 0, 0), upTo(s, 3, 0, 0, 59*s), members(s, 2), upTo(m, 100, 5, 0, 0), members(m, 1),
		}},
		{"what fits", gcra(per(1, s), 5), []step{
			upTo(0, 3, 3, 2, 0), upTo(0, 3, 2, 0, 0), upTo(200*ms, 3, 0, 0, 800*ms), upTo(m, 100, 5, 0, 0),
		}},
		{"a peek takes nothing", sliding(2, m), []step{
			peek(0, 2, 0, 0), absent(0), allow(0, 2, 0), peek(10*s, 0, 80*s, 110*s), peek(90*s, 1, 0, 30*s), allow(2*m, 2, 0),
		}},
		{"a peek takes nothing", log(2, m), []step{
			peek(0, 2, 0, 0), absent(0), allow(0, 2, 0), peek(10*s, 0, 50*s, 50*s), members(10*s, 1), peek(m, 2, 0, 0), allow(m, 2, 0),
		}},
		{"a peek takes nothing", gcra(per(1, s), 2), []step{
			peek(0, 2, 0, 0), absent(0), allow(0, 2, 0), peek(300*ms, 0, 700*ms, 1700*ms), peek(2*s, 2, 0, 0), allow(2*s, 2, 0),
		}},
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
	var busy []step
	for i, remaining := range []int64{9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2, 1, 1, 0} {
		busy = append(busy, allow(time.Duration(i)*s, 1, remaining))
	}
	busy = append(busy, deny(14*s, 1, 0, s), allow(15*s, 1, 0))
	often := []step{
		allow(0, 1, 0), deny(600*ms, 1, 0, 400*ms), allow(1200*ms, 1, 0),
		deny(1800*ms, 1, 0, 400*ms), allow(2400*ms, 1, 0), deny(3000*ms, 1, 0, 400*ms),
	}
	rounded := []step{allow(0, 1, 0), deny(0, 1, 0, 1500*ms), allow(2*s, 1, 0)}

	return []scenario{
		{"B31 wait rounded down", bucket(per(1, 1500*ms), 1), rounded},
		{"B31 wait rounded down", gcra(per(1, 1500*ms), 1), rounded},
		{"B33 wait ignores what is earned", gcra(per(1, s), 1), []step{allow(0, 1, 0), deny(200*ms, 1, 0, 800*ms)}},
		{"B33 wait ignores what is earned", gcra(per(1, m), 5), []step{allow(0, 5, 0), deny(59*s, 1, 0, s)}},
		{"B33 wait ignores what is earned", bucket(per(1, s), 1), []step{allow(0, 1, 0), deny(200*ms, 1, 0, 800*ms)}},
		{"B33 wait ignores what is earned", bucket(per(1, m), 5), []step{allow(0, 5, 0), deny(59*s, 1, 0, s)}},
		{"B35 busy key earns nothing", bucket(per(10, 30*s), 10), busy},
		{"B35 busy key earns nothing", gcra(per(10, 30*s), 10), busy},
		{"B35 busy key earns nothing", bucket(per(1, s), 1), often},
		{"B35 busy key earns nothing", gcra(per(1, s), 1), often},
		idle(bucket(per(10, 10*s), 10)), idle(gcra(per(10, 10*s), 10)),
		idle(fixed(10, 10*s)), idle(sliding(10, 10*s)), idle(log(10, 10*s)),
	}
}

func idle(plan ration.Plan) scenario {
	return scenario{"B37 remaining above the limit", plan, []step{allow(0, 1, 9), allow(100*s, 1, 9), peek(200*s, 10, 0, 0)}}
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
	long := func(plan ration.Plan) scenario {
		return scenario{"B39 long idle", plan, []step{
			allow(0, 1, 99), persist(0), allow(12*h, 1, 99), persist(12 * h), allow(365*24*h, 1, 99),
		}}
	}
	above := func(plan ration.Plan) scenario {
		return scenario{"B45 cost above capacity", plan, []step{allow(0, 1, 4), never(20*s, 6), allow(20*s, 5, 0)}}
	}
	return slices.Concat([]scenario{
		long(bucket(per(1000, s), 100)), long(gcra(per(1000, s), 100)), long(sliding(100, s)), long(log(100, s)),
		{"long idle, where moments come round again after 75 minutes", gcra(per(999_983, s), 100), []step{
			allow(0, 1, 99), persist(0), allow(15*m, 1, 99), persist(15 * m), allow(15*m+80*m, 1, 99),
		}},
		above(bucket(per(10, s), 5)), above(gcra(per(10, s), 5)),
		above(fixed(5, 10*s)), above(sliding(5, 10*s)), above(log(5, 10*s)),
		negative(fixed(10, h)), negative(aligned(10, h)), negative(restarting(10, h)), negative(sliding(10, h)), negative(log(10, h)),
		negative(bucket(per(10, h), 10)), negative(gcra(per(10, h), 10)),
	},
		look(fixed(10, m)), look(aligned(10, m)), look(restarting(10, m)), look(sliding(10, m)), look(log(10, m)),
		look(bucket(per(1, m), 10)), look(gcra(per(1, m), 10)),
	)
}
