package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// InMultiPlan is a backend on which every plan is the only one of a MultiPlan, so that the scenarios of single plans hold the
// script of several to the same.
func InMultiPlan(b Backend) Backend { return inMulti{b} }

type inMulti struct{ Backend }

func (b inMulti) Limiter(t *testing.T, name string, plan ration.Plan) Limiter {
	t.Helper()
	return oneOfMulti{t, b.Backend.Limiter(t, name, wrapped(plan))}
}

func wrapped(plan ration.Plan) ration.Plan {
	if plan == nil {
		return nil
	}
	return ration.MultiPlan{{Name: "only", Plan: plan}}
}

// oneOfMulti is a limiter of a MultiPlan of one plan, used and read as one of that plan.
type oneOfMulti struct {
	t *testing.T
	Limiter
}

func (l oneOfMulti) Take(ctx context.Context, r ration.Request) (ration.Decision, error) {
	r.Plan = wrapped(r.Plan)
	return l.unwrapped(l.Limiter.Take(ctx, r))
}

func (l oneOfMulti) AllowUpTo(ctx context.Context, key string, n int64) (ration.Decision, error) {
	return l.unwrapped(l.Limiter.AllowUpTo(ctx, key, n))
}

func (l oneOfMulti) Peek(ctx context.Context, key string) (ration.Decision, error) {
	return l.unwrapped(l.Limiter.Peek(ctx, key))
}

// unwrapped checks that the plan says the same as all plans together.
func (l oneOfMulti) unwrapped(d ration.Decision, err error) (ration.Decision, error) {
	l.t.Helper()
	if err == nil {
		require.Equal(l.t, "only", d.Plan)
		require.Len(l.t, d.Plans, 1)
		require.Equal(l.t, ration.PlanDecision{
			Name: "only", Plan: d.Plans[0].Plan, Limit: d.Limit,
			Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter,
		}, d.Plans[0])
		d.Plan = d.Plans[0].Plan
	}
	return d, err
}

// inMultiToo says whether a plan may be one of a MultiPlan.
func inMultiToo(plan ration.Plan) bool {
	window, isFixed := plan.(ration.FixedWindow)
	return !isFixed || !window.RestartOnDeny
}

// RunMulti runs the scenarios of several plans together, on a backend with a Redis.
func RunMulti(t *testing.T, backend Backend) {
	t.Helper()
	together := func(name string, plan ration.MultiPlan, steps ...step) {
		t.Run(name, func(t *testing.T) { runScenario(t, backend, scenario{name, plan, steps}) })
	}
	short, long := fixed(10, m), fixed(30, 30*m)
	both := ration.MultiPlan{{Name: "short", Plan: short}, {Name: "long", Plan: long}}

	var b75 []step
	for left := int64(9); left >= 0; left-- {
		b75 = append(b75, allowAll(0, 1, "short", left, 20+left))
	}
	for range 21 {
		b75 = append(b75, denyAll(0, 1, "short", m, 0, 20))
	}
	together("B75 refused requests charge other plans", both, append(b75, allowAll(60*s+2*ms, 1, "long", 9, 19))...)

	together("the plan that binds", ration.MultiPlan{
		{Name: "a", Plan: bucket(per(1, s), 100)}, {Name: "b", Plan: gcra(per(1, 10*s), 10)}, {Name: "c", Plan: log(20, m)},
	},
		allowAll(0, 1, "b", 99, 9, 19),
		allowAll(0, 8, "b", 91, 1, 11),
		denyAll(0, 10, "b", 90*s, 91, 1, 11),
		denyAll(90*s-us, 10, "b", us, 100, 9, 20),
		allowAll(90*s, 10, "b", 90, 0, 10),
		denyAll(90*s, 10, "b", 100*s, 90, 0, 10),
	)

	together("the longest wait", ration.MultiPlan{
		{Name: "fixed", Plan: fixed(5, m)},
		{Name: "sliding", Plan: sliding(5, m)},
		{Name: "log", Plan: log(5, m)},
		{Name: "bucket", Plan: bucket(per(1, 7*s), 5)},
		{Name: "gcra", Plan: gcra(per(1, 11*s), 5)},
	},
		allowAll(30*s, 5, "fixed", 0, 0, 0, 0, 0),
		// Two units: the fixed window in 60 s, the sliding one when what weighs 5 weighs 3, 30 s and 24 s from now.
		denyAll(30*s, 2, "fixed", m, 0, 0, 0, 0, 0),
		denyAll(84*s-ms, 2, "fixed", 6*s+ms, 0, 1, 0, 5, 4),
		denyAll(90*s-ms, 2, "fixed", ms, 0, 2, 0, 5, 5),
		allowAll(90*s, 2, "sliding", 3, 0, 3, 3, 3),
	)

	together("a refund of several plans", ration.MultiPlan{
		{Name: "fixed", Plan: fixed(5, m)},
		{Name: "sliding", Plan: sliding(5, m)},
		{Name: "log", Plan: log(5, m)},
		{Name: "bucket", Plan: bucket(per(1, 7*s), 5)},
		{Name: "gcra", Plan: gcra(per(1, 11*s), 5)},
	},
		allowAll(0, 2, "fixed", 3, 3, 3, 3, 3),
		allowAll(0, 3, "fixed", 0, 0, 0, 0, 0),
		refund(s, 0),
		allowAll(s, 2, "fixed", 0, 0, 0, 0, 0),
		refund(s, 2),
		allowAll(s, 0, "fixed", 2, 2, 2, 2, 2),
	)

	together("a plan that is changed keeps its count by its name", ration.MultiPlan{
		{Name: "one", Plan: fixed(10, m)}, {Name: "two", Plan: fixed(20, m)},
	},
		allowAll(0, 4, "one", 6, 16),
		step{at: s, do: func(r *run) {
			r.Helper()
			d := r.take(ration.Request{Key: r.key, Cost: 1, Plan: ration.MultiPlan{
				{Name: "one", Plan: fixed(100, m)}, {Name: "two", Plan: fixed(5, m)},
			}})
			require.Equal(r, "two", d.Plan)
			require.EqualValues(r, 95, d.Plans[0].Remaining)
			require.Zero(r, d.Plans[1].Remaining)
		}},
	)

	together("nothing is written where one plan denies", ration.MultiPlan{
		{Name: "fixed", Plan: fixed(50, m)},
		{Name: "sliding", Plan: sliding(50, m)},
		{Name: "log", Plan: log(50, m)},
		{Name: "bucket", Plan: bucket(per(1, 7*s), 50)},
		{Name: "gcra", Plan: gcra(per(1, 11*s), 50)},
		{Name: "few", Plan: fixed(3, m)},
	},
		allowAll(us, 2, "few", 48, 48, 48, 48, 48, 1),
		unwritten(denyAll(s+us, 2, "few", 59*s, 48, 48, 48, 48, 48, 1)),
		unwritten(allowAll(s+us, 0, "few", 48, 48, 48, 48, 48, 1)),
		unwritten(peeks(s+us)),
	)
}

// allowAll takes n units, which must be granted, with a plan that binds and so many remaining under each.
func allowAll(at time.Duration, n int64, binds string, remaining ...int64) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		d := r.take(ration.Request{Key: r.key, Cost: n})
		require.True(r, d.Allowed, "at +%v: %+v", r.at, d)
		require.Equal(r, n, d.Granted)
		require.Zero(r, d.RetryAfter)
		r.each(d, binds, remaining)
	}}
}

// denyAll takes n units, which must be denied by a plan until `retry` later.
func denyAll(at time.Duration, n int64, by string, retry time.Duration, remaining ...int64) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		d := r.take(ration.Request{Key: r.key, Cost: n})
		require.False(r, d.Allowed, "at +%v: %+v", r.at, d)
		require.Zero(r, d.Granted)
		require.Equal(r, retry, d.RetryAfter, "at +%v", r.at)
		r.each(d, by, remaining)
	}}
}

// each compares what remains under each plan, and what all plans together say with that.
func (r *run) each(d ration.Decision, binds string, remaining []int64) {
	r.Helper()
	require.Equal(r, binds, d.Plan, "at +%v: %+v", r.at, d)
	least, limit := remaining[0], d.Plans[0].Limit
	var retry, reset time.Duration
	var got []int64
	for i, plan := range d.Plans {
		got = append(got, plan.Remaining)
		least, limit = min(least, remaining[i]), min(limit, plan.Limit)
		retry, reset = max(retry, plan.RetryAfter), max(reset, plan.ResetAfter)
	}
	require.Equal(r, remaining, got, "at +%v: remaining", r.at)
	require.Equal(r, least, d.Remaining, "at +%v: remaining of all", r.at)
	require.Equal(r, limit, d.Limit)
	require.Equal(r, retry, d.RetryAfter)
	require.Equal(r, reset, d.ResetAfter)
}

// unwritten is a step that leaves every key, and its expiry, as it was.
func unwritten(s step) step {
	return step{at: s.at, do: func(r *run) {
		r.Helper()
		before := r.dumps()
		require.NotEmpty(r, before)
		s.do(r)
		require.Equal(r, before, r.dumps(), "at +%v: stored", r.at)
	}}
}

// dumps are all keys of the scenario, what they hold and when they expire.
func (r *run) dumps() map[string]any {
	r.Helper()
	all := make(map[string]any)
	for _, key := range r.storedKeys() {
		value, expires := r.held(key)
		all[key] = [2]any{value, expires}
	}
	return all
}
