package ration

import (
	"strconv"
	"time"
)

// FixedWindow admits at most Limit units per Window, and starts counting anew when a window is over.
//
// Guarantee: at most Limit units are granted in one window. Two windows may follow each other at once, so that in some
// span of the length of a window up to twice Limit are granted: at the end of one and at the start of the next.
//
// A window opens with the first grant and lasts Window from there, unless Aligned. Denied requests do not count, and
// nothing but RestartOnDeny makes an open window longer. Times are whole milliseconds of the server's clock.
//
// A changed plan keeps what was counted in the open window; its end moves nearer where the new window is shorter, and
// never further away. So one key should not be decided under windows of different lengths in turn: the shorter one would
// end the longer one early, each time.
//
// The zero value is refused. Stored: one integer per key, which expires with its window.
type FixedWindow struct {
	// Limit is the units per window: 1 to 2^52.
	Limit int64
	// Window is how long a window lasts: whole milliseconds, 1 ms to 2^52 µs (142 years).
	Window time.Duration
	// Aligned makes the windows those of the server's clock, counted from 1970 in UTC: with a Window of a minute, the
	// calendar minutes. All keys then start anew in the same instant.
	Aligned bool
	// RestartOnDeny makes a denied request start the window again, what was counted staying: whoever keeps trying what was
	// denied stays out until one whole Window has passed without a try; a request of a lower cost may still fit. For
	// attempts to log in. Not together with Aligned.
	RestartOnDeny bool
}

const (
	fixedWindowName          = "fixed-window"
	fixedWindowAligned       = "aligned"
	fixedWindowRestartOnDeny = "restart-on-deny"
)

// The modes of scripts/parts/fixedwindow_look.lua.
const (
	fixedWindowOpensAtGrant = iota
	fixedWindowOnGrid
	fixedWindowRestartsOnAnyDenial
	fixedWindowRestartsOnFullDenial
)

// String is the plan as ParsePlan reads it: "fixed-window 60/2h", "fixed-window 60/1m aligned".
func (p FixedWindow) String() string {
	s := formatWindow(fixedWindowName, p.Limit, p.Window)
	if p.Aligned {
		s += " " + fixedWindowAligned
	}
	if p.RestartOnDeny {
		s += " " + fixedWindowRestartOnDeny
	}
	return s
}

func parseFixedWindow(p *planParser) Plan {
	var plan FixedWindow
	plan.Limit, plan.Window = p.quota()
	for len(p.words) > 0 && p.err == nil {
		word, _ := p.next("")
		switch {
		case word.text == fixedWindowAligned && !plan.Aligned:
			plan.Aligned = true
		case word.text == fixedWindowRestartOnDeny && !plan.RestartOnDeny:
			plan.RestartOnDeny = true
		default:
			p.fail(word, "want aligned, restart-on-deny or nothing more")
		}
	}
	return plan
}

func (p FixedWindow) prepare() (*preparedPlan, error) {
	if err := checkWindow(fixedWindowName, p.Limit, exactBound, p.Window); err != nil {
		return nil, err
	}
	if p.Aligned && p.RestartOnDeny {
		return nil, &PlanError{Plan: fixedWindowName, Field: "RestartOnDeny", Reason: "cannot be together with Aligned"}
	}
	mode, modeUpTo, modeOfDebt := fixedWindowOpensAtGrant, fixedWindowOpensAtGrant, fixedWindowOpensAtGrant
	switch {
	case p.Aligned:
		mode, modeUpTo, modeOfDebt = fixedWindowOnGrid, fixedWindowOnGrid, fixedWindowOnGrid
	case p.RestartOnDeny: // a debt that Redis has no room for is no attempt
		mode, modeUpTo = fixedWindowRestartsOnAnyDenial, fixedWindowRestartsOnFullDenial
	}
	args := func(mode int) []any {
		return []any{
			strconv.FormatInt(p.Limit, 10),
			strconv.FormatInt(p.Window.Milliseconds(), 10),
			strconv.Itoa(mode),
		}
	}
	return &preparedPlan{
		plan:         p,
		text:         p.String(),
		kind:         "fw1",
		limit:        p.Limit,
		take:         &fixedWindowTake,
		many:         &fixedWindowMany,
		peek:         &fixedWindowPeek,
		refund:       &fixedWindowRefund,
		args:         args(mode),
		argsUpTo:     args(modeUpTo),
		argsOfDebt:   args(modeOfDebt),
		denialCounts: p.RestartOnDeny,
		algorithm:    p,
	}, nil
}

func (p FixedWindow) plausible(r reply) bool {
	remaining, left := r[1], r[2]
	return 0 <= remaining && remaining <= p.Limit && 0 <= left && left <= p.Window.Milliseconds() &&
		(left > 0 || remaining == p.Limit)
}

func (p FixedWindow) outcome(r reply, _ int64) outcome {
	left := time.Duration(r[2]) * time.Millisecond
	return outcome{remaining: r[1], retryAfter: left, resetAfter: left}
}

func (p FixedWindow) before(r reply, units int64) reply {
	r[1] += units
	return r
}

func (p FixedWindow) taken(r reply, units int64) []any {
	closes := r[3]
	return []any{units, closes}
}

func (p FixedWindow) newTwin() twin { return &fixedWindowTwin{plan: p} }

func (p FixedWindow) twinFrom(free int64, r reply, atMicros int64) twin {
	t := &fixedWindowTwin{plan: p}
	if used := p.Limit - free; used > 0 {
		left := r[2]
		if left == 0 {
			left = t.longestAt(atMicros / 1000)
		}
		t.used, t.endMillis = used, atMicros/1000+left
	}
	return t
}

// fixedWindowTwin is the counter of one key. It counts as the script does, in whole milliseconds.
type fixedWindowTwin struct {
	plan      FixedWindow
	used      int64
	endMillis int64
}

// usedAt is what was granted in the open window and the time until its end, in ms; both 0 where no window is open.
func (t *fixedWindowTwin) usedAt(nowMillis int64) (used, left int64) {
	if t.endMillis <= nowMillis {
		return 0, 0
	}
	return t.used, min(t.endMillis-nowMillis, t.longestAt(nowMillis))
}

// longestAt is how long a window that opens now lasts, in ms.
func (t *fixedWindowTwin) longestAt(nowMillis int64) int64 {
	window := t.plan.Window.Milliseconds()
	if t.plan.Aligned {
		return window - nowMillis%window
	}
	return window
}

func (t *fixedWindowTwin) takeAt(nowMicros, cost, count int64, upTo bool) reply {
	nowMillis := nowMicros / 1000
	used, left := t.usedAt(nowMillis)
	room := max(t.plan.Limit-used, 0)
	granted := fit(room, cost, count)
	units := granted * cost
	switch {
	case units > 0 && left == 0:
		left = t.longestAt(nowMillis)
	case granted < count && left > 0 && t.plan.RestartOnDeny && (!upTo || units == 0):
		left = t.plan.Window.Milliseconds()
	}
	if left > 0 {
		t.used, t.endMillis = used+units, nowMillis+left
	}
	closes := int64(0)
	if units > 0 {
		closes = t.endMillis
	}
	return reply{granted, room - units, left, closes}
}

func (t *fixedWindowTwin) refundAt(nowMicros int64, r reply, units int64) int64 {
	if closes := r[3]; closes != t.endMillis || t.endMillis <= nowMicros/1000 {
		return 0
	}
	units = min(units, t.used)
	t.used -= units
	return units
}

func (t *fixedWindowTwin) peekAt(nowMicros int64) reply {
	used, left := t.usedAt(nowMicros / 1000)
	return reply{0, max(t.plan.Limit-used, 0), left}
}
