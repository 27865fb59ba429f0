package conformance

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// allow takes n units, which must be granted with so many remaining.
func allow(at time.Duration, n, remaining int64) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		d := r.take(ration.Request{Key: r.key, Cost: n})
		require.True(r, d.Allowed, "at +%v: %+v", r.at, d)
		require.Equal(r, n, d.Granted, "at +%v: granted", r.at)
		require.Equal(r, remaining, d.Remaining, "at +%v: remaining", r.at)
		require.Zero(r, d.RetryAfter, "at +%v: retryAfter", r.at)
	}}
}

// deny takes n units, which must be denied until `retry` later.
func deny(at time.Duration, n, remaining int64, retry time.Duration) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		r.requireDenied(r.take(ration.Request{Key: r.key, Cost: n}), remaining, retry)
	}}
}

// requireDenied holds a denial to what it must say. Of one that was remembered, what remains is what was known then, and in a log the wait
// is that of the lesser cost that was denied then.
func (r *run) requireDenied(d ration.Decision, remaining int64, retry time.Duration) {
	r.Helper()
	require.False(r, d.Allowed, "at +%v: %+v", r.at, d)
	require.Zero(r, d.Granted, "at +%v: granted", r.at)
	isRemembered := d.Source == ration.SourceDenyCache
	if isRemembered {
		require.LessOrEqual(r, d.Remaining, remaining, "at +%v: remaining", r.at)
	} else {
		require.Equal(r, remaining, d.Remaining, "at +%v: remaining", r.at)
	}
	if _, isLog := r.plan.(ration.SlidingLog); isLog && isRemembered {
		require.LessOrEqual(r, d.RetryAfter, retry, "at +%v: retryAfter", r.at)
	} else {
		require.Equal(r, retry, d.RetryAfter, "at +%v: retryAfter", r.at)
	}
}

// denies takes n units, which must be denied.
func denies(at time.Duration, n int64) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		require.False(r, r.take(ration.Request{Key: r.key, Cost: n}).Allowed, "at +%v", r.at)
	}}
}

// refund gives back what was granted by the i-th grant of the scenario, counted from 0.
func refund(at time.Duration, i int) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		require.NoError(r, r.limiter.Refund(r.Context(), r.granted[i]), "at +%v", r.at)
	}}
}

// peeks looks without taking.
func peeks(at time.Duration) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		_, err := r.limiter.Peek(r.Context(), r.key)
		require.NoError(r, err)
	}}
}

// silent is a step that writes nothing.
func silent(s step) step {
	return step{at: s.at, stored: true, do: func(r *run) {
		r.Helper()
		before, expiresBefore := r.stored()
		s.do(r)
		after, expiresAfter := r.stored()
		require.Equal(r, before, after, "at +%v: stored", r.at)
		require.Equal(r, expiresBefore, expiresAfter, "at +%v: expiry", r.at)
	}}
}

// allowUnder takes a unit under another plan of the same kind.
func allowUnder(plan ration.Plan, at time.Duration, n, remaining int64) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		d := r.take(ration.Request{Key: r.key, Cost: n, Plan: plan})
		require.True(r, d.Allowed, "at +%v: %+v", r.at, d)
		require.Equal(r, remaining, d.Remaining, "at +%v: remaining", r.at)
	}}
}

// passUnder takes n units under another plan of the same kind, which must be granted.
func passUnder(plan ration.Plan, at time.Duration, n int64) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		d := r.take(ration.Request{Key: r.key, Cost: n, Plan: plan})
		require.True(r, d.Allowed, "at +%v: %+v", r.at, d)
	}}
}

// denyUnder is deny under another plan of the same kind.
func denyUnder(plan ration.Plan, at time.Duration, n, remaining int64, retry time.Duration) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		r.requireDenied(r.take(ration.Request{Key: r.key, Cost: n, Plan: plan}), remaining, retry)
	}}
}

// upTo takes up to n units, of which so many must be granted.
func upTo(at time.Duration, n, granted, remaining int64, retry time.Duration) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		d, err := r.limiter.AllowUpTo(r.Context(), r.key, n)
		require.NoError(r, err)
		require.Equal(r, granted, d.Granted, "at +%v: granted", r.at)
		require.Equal(r, granted > 0 || n == 0, d.Allowed, "at +%v: allowed", r.at)
		if remaining != anyNumber {
			require.Equal(r, remaining, d.Remaining, "at +%v: remaining", r.at)
		}
		require.Equal(r, retry, d.RetryAfter, "at +%v: retryAfter", r.at)
	}}
}

// anyNumber may remain.
const anyNumber = -1

// peek looks without taking.
func peek(at time.Duration, remaining int64, retry, reset time.Duration) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		d, err := r.limiter.Peek(r.Context(), r.key)
		require.NoError(r, err)
		require.Equal(r, remaining > 0, d.Allowed, "at +%v: allowed", r.at)
		require.Zero(r, d.Granted, "at +%v: granted", r.at)
		require.Equal(r, remaining, d.Remaining, "at +%v: remaining", r.at)
		require.Equal(r, retry, d.RetryAfter, "at +%v: retryAfter", r.at)
		require.Equal(r, reset, d.ResetAfter, "at +%v: resetAfter", r.at)
	}}
}

// never takes n units, more than the plan can ever grant.
func never(at time.Duration, n int64) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		_, err := r.limiter.Take(r.Context(), ration.Request{Key: r.key, Cost: n})
		require.ErrorIs(r, err, ration.ErrCostExceedsLimit, "at +%v", r.at)
	}}
}

// invalid takes a negative number of units.
func invalid(at time.Duration, n int64) step {
	return step{at: at, do: func(r *run) {
		r.Helper()
		_, err := r.limiter.Take(r.Context(), ration.Request{Key: r.key, Cost: n})
		require.ErrorIs(r, err, ration.ErrInvalidCost, "at +%v", r.at)
	}}
}

// expires reads the lifetime left of the stored key, in ms.
func expires(at time.Duration, least, most int64) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		left, err := r.backend.Redis().Do(r.Context(), "PTTL", r.storedKey()).Int64()
		require.NoError(r, err)
		require.GreaterOrEqual(r, left, least, "at +%v: PTTL", r.at)
		require.LessOrEqual(r, left, most, "at +%v: PTTL", r.at)
	}}
}

// absent finds no stored key.
func absent(at time.Duration) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		require.Empty(r, r.storedKeys(), "at +%v", r.at)
	}}
}

// persist takes the lifetime of the stored key away.
func persist(at time.Duration) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		require.NoError(r, r.backend.Redis().Persist(r.Context(), r.storedKey()).Err())
	}}
}

// members counts those of the stored sorted set.
func members(at time.Duration, n int64) step {
	return step{at: at, stored: true, do: func(r *run) {
		r.Helper()
		got, err := r.backend.Redis().ZCard(r.Context(), r.storedKey()).Result()
		require.NoError(r, err)
		require.Equal(r, n, got, "at +%v: members", r.at)
	}}
}

// countdown takes n units one by one, at one moment, of which none is left then.
func countdown(at time.Duration, n int64) []step {
	var steps []step
	for left := n - 1; left >= 0; left-- {
		steps = append(steps, allow(at, 1, left))
	}
	return steps
}

// back marks a step before which the clock goes back.
func back(s step) step {
	s.stepsBack = true
	return s
}

// repeat does a step several times.
func repeat(n int, s step) []step {
	steps := make([]step, n)
	for i := range steps {
		steps[i] = s
	}
	return steps
}
