package ration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

var (
	perSecond = ration.GCRA{Rate: ration.PerSecond(10), Burst: 10}
	perDay    = ration.FixedWindow{Limit: 1000, Window: 24 * time.Hour}
	ofTenant  = ration.TokenBucket{Rate: ration.PerSecond(500), Burst: 500}
)

// checkout is the plan of the package comment: per user, and per tenant.
func checkout() ration.MultiPlan {
	return ration.MultiPlan{
		{Name: "second", Plan: perSecond},
		{Name: "day", Plan: perDay},
		{Name: "tenant", Plan: ofTenant, Scope: ration.PerTag},
	}
}

func newMulti(t *testing.T, plan ration.MultiPlan, options ...ration.LimiterOption) (*rationtest.Server, *ration.Limiter) {
	t.Helper()
	server := rationtest.New(t, withoutBeats)
	limiter, err := server.Client.Limiter("checkout", plan, options...)
	require.NoError(t, err)
	return server, limiter
}

func TestImpossibleMultiPlans(t *testing.T) {
	t.Parallel()
	ok := ration.NamedPlan{Name: "ok", Plan: perSecond}
	many := make(ration.MultiPlan, 17)
	for i := range many {
		many[i] = ration.NamedPlan{Name: fmt.Sprint("plan", i), Plan: perSecond}
	}
	restarts := ration.FixedWindow{Limit: 1, Window: time.Minute, RestartOnDeny: true}
	for name, c := range map[string]struct {
		plan ration.MultiPlan
		says string
	}{
		"none":            {ration.MultiPlan{}, "multi-plan has 0 plans: must have 1 to 16"},
		"nil":             {nil, "multi-plan has 0 plans: must have 1 to 16"},
		"17":              {many, "multi-plan has 17 plans: must have 1 to 16"},
		"no name":         {ration.MultiPlan{ok, {Plan: perSecond}}, `multi-plan: [1].Name is ""`},
		"bad name":        {ration.MultiPlan{{Name: "a b", Plan: perSecond}}, `multi-plan: [0].Name is "a b"`},
		"one name":        {ration.MultiPlan{ok, ok}, `multi-plan: [1].Name is "ok", as that of another plan`},
		"no plan":         {ration.MultiPlan{{Name: "a"}}, "multi-plan: [0].Plan is nil"},
		"nested":          {ration.MultiPlan{{Name: "a", Plan: ration.MultiPlan{ok}}}, "multi-plan: [0].Plan is a MultiPlan"},
		"scope":           {ration.MultiPlan{{Name: "a", Plan: perSecond, Scope: 2}}, "multi-plan: [0].Scope is 2"},
		"restart on deny": {ration.MultiPlan{{Name: "a", Plan: restarts}}, "multi-plan: [0].Plan.RestartOnDeny cannot be"},
		"its own":         {ration.MultiPlan{{Name: "a", Plan: ration.GCRA{Rate: ration.PerSecond(1)}}}, `plan "a": gcra: Burst is 0`},
		"pointer":         {ration.MultiPlan{{Name: "a", Plan: &perSecond}}, `plan "a": plan of type *ration.GCRA`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := rationtest.New(t).Client.Limiter("checkout", c.plan)
			require.ErrorIs(t, err, ration.ErrInvalidPlan)
			require.ErrorContains(t, err, c.says)
		})
	}
	_, limiter := newMulti(t, many[:16])
	d, err := limiter.Allow(t.Context(), "user:7")
	require.NoError(t, err)
	require.Len(t, d.Plans, 16)
}

func TestMultiPlanAsText(t *testing.T) {
	t.Parallel()
	text := checkout().String()
	require.Equal(t, "second: gcra 10/s burst 10 + day: fixed-window 1000/1d + tenant: token-bucket 500/s burst 500 per-tag", text)
	parsed, err := ration.ParsePlan(text)
	require.NoError(t, err)
	require.Equal(t, checkout(), parsed)

	for input, at := range map[string]string{
		"a: gcra 1/s burst 1 +":                       "at its end: want a name and a colon",
		"a: gcra 1/s burst 1 + gcra 1/s burst 1":      `at "gcra": want a name and a colon`,
		"a: gcra 1/s burst + b: gcra 1/s burst 1":     `at "+": want a number of units`,
		"a: gcra 1/s burst per-tag":                   `at "per-tag": want a number of units`,
		"a: per-tag":                                  `at "per-tag": want fixed-window`,
		"a: + b: gcra 1/s burst 1":                    "want fixed-window",
		"a: gcra 1/s burst 1 per-tag more":            `at "per-tag": want nothing more`,
		"a: gcra 1/s burst 1 + b: c: gcra 1/s":        `at "c:": want fixed-window`,
		"gcra 1/s burst 1 + b: gcra 1/s burst 1":      `at "+": want nothing more`,
		"a: gcra 1/s burst 1 + a: gcra 1/s burst 1":   "as that of another plan",
		"a: fixed-window 5/1m restart-on-deny":        "RestartOnDeny",
		"a: gcra 1/s burst 1 + b: gcra 1/x burst 1 +": `at "x"`,
	} {
		_, err := ration.ParsePlan(input)
		require.Error(t, err, input)
		require.ErrorContains(t, err, at, input)
	}
}

// A decision names the plan that binds, and has the numbers of each.
func TestMultiPlanDecision(t *testing.T) {
	t.Parallel()
	server, limiter := newMulti(t, checkout())
	d, err := limiter.AllowN(t.Context(), "{acme}:user:7", 4)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.EqualValues(t, 4, d.Granted)
	require.Equal(t, "second", d.Plan)
	require.EqualValues(t, 10, d.Limit)
	require.EqualValues(t, 6, d.Remaining)
	require.Equal(t, ration.SourceRedis, d.Source)
	require.Equal(t, []ration.PlanDecision{
		{Name: "second", Plan: "gcra 10/s burst 10", Limit: 10, Remaining: 6, ResetAfter: 400 * time.Millisecond},
		{Name: "day", Plan: "fixed-window 1000/1d", Limit: 1000, Remaining: 996, ResetAfter: 24 * time.Hour},
		{Name: "tenant", Plan: "token-bucket 500/s burst 500", Limit: 500, Remaining: 496, ResetAfter: 8 * time.Millisecond},
	}, d.Plans)
	require.Equal(t, 24*time.Hour, d.ResetAfter)

	d, err = limiter.AllowN(t.Context(), "{acme}:user:7", 7)
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Equal(t, "second", d.Plan)
	require.Equal(t, 100*time.Millisecond, d.RetryAfter)
	require.Equal(t, []time.Duration{100 * time.Millisecond, 0, 0}, []time.Duration{
		d.Plans[0].RetryAfter, d.Plans[1].RetryAfter, d.Plans[2].RetryAfter,
	})
	server.Advance(d.RetryAfter - time.Microsecond)
	d, err = limiter.AllowN(t.Context(), "{acme}:user:7", 7)
	require.NoError(t, err)
	require.False(t, d.Allowed)
	server.Advance(d.RetryAfter)
	d, err = limiter.AllowN(t.Context(), "{acme}:user:7", 7)
	require.NoError(t, err)
	require.True(t, d.Allowed)

	d, err = limiter.AllowUpTo(t.Context(), "{acme}:user:7", 1000)
	require.NoError(t, err)
	require.Zero(t, d.Granted)
	server.Advance(300 * time.Millisecond)
	d, err = limiter.AllowUpTo(t.Context(), "{acme}:user:7", 1000)
	require.NoError(t, err)
	require.EqualValues(t, 3, d.Granted)

	d, err = limiter.Peek(t.Context(), "{acme}:user:7")
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Equal(t, "second", d.Plan)
	require.EqualValues(t, 986, d.Plans[1].Remaining)
}

// A plan of scope PerTag counts for all keys of a tag together; the others for each.
func TestScopes(t *testing.T) {
	t.Parallel()
	_, limiter := newMulti(t, ration.MultiPlan{
		{Name: "user", Plan: ration.FixedWindow{Limit: 3, Window: time.Minute}},
		{Name: "tenant", Plan: ration.FixedWindow{Limit: 5, Window: time.Minute}, Scope: ration.PerTag},
	})
	allow := func(key string, allowed bool, plan string) {
		t.Helper()
		d, err := limiter.Allow(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, allowed, d.Allowed, key)
		require.Equal(t, plan, d.Plan, key)
	}
	for range 2 {
		allow("{acme}:user:7", true, "user")
	}
	allow("{acme}:user:7", true, "user")
	allow("{acme}:user:7", false, "user")
	allow("{acme}:user:8", true, "tenant")
	allow("user:9:{acme}", true, "tenant")
	allow("{acme}:user:8", false, "tenant")
	allow("{acme}", false, "tenant")
	allow("{other}:user:7", true, "user")
	// A key without a tag is a tag of its own, and none of those.
	allow("acme", true, "user")
	allow("acme", true, "user")
	allow("acme", true, "user")
	allow("acme", false, "user")

	// Reset forgets the tenant's count too.
	require.NoError(t, limiter.Reset(t.Context(), "{acme}:user:7"))
	allow("{acme}:user:8", true, "user")
}

// Keys given apart live together or are refused before the network, with all that has to be known to mend them.
func TestKeysApart(t *testing.T) {
	t.Parallel()
	server, limiter := newMulti(t, checkout())
	d, err := limiter.Take(t.Context(), ration.Request{
		Key: "{acme}:user:7", Cost: 1, Keys: map[string]string{"tenant": "parent-of:{acme}", "day": "{acme}:plan:gold"},
	})
	require.NoError(t, err)
	require.True(t, d.Allowed)
	var stored []string
	for _, key := range server.NewRedis(t).Keys(t.Context(), "*").Val() {
		stored = append(stored, key[strings.LastIndex(key, "/")+1:])
	}
	require.ElementsMatch(t, []string{
		"second:gc1t-1-255s-a:{acme}:user:7", "day:fw1t:{acme}:plan:gold", "tenant:tb1t:{acme}",
	}, stored)
	require.NoError(t, limiter.Refund(t.Context(), d))
	d, err = limiter.Take(t.Context(), ration.Request{Cost: 1, Keys: map[string]string{
		"second": "{acme}:user:7", "day": "{acme}:plan:gold", "tenant": "{acme}",
	}})
	require.NoError(t, err)
	require.EqualValues(t, 999, d.Plans[1].Remaining)

	server.NewRedis(t).FlushAll(t.Context())
	_, err = limiter.Take(t.Context(), ration.Request{Key: "{acme}:user:7", Cost: 1, Keys: map[string]string{"tenant": "globex"}})
	require.ErrorIs(t, err, ration.ErrCrossSlot)
	var cross *ration.CrossSlotError
	require.ErrorAs(t, err, &cross)
	require.Equal(t, []ration.PlacedKey{
		{Plan: "second", Key: "{acme}:user:7", Tag: "acme", Slot: ration.Slot("acme")},
		{Plan: "day", Key: "{acme}:user:7", Tag: "acme", Slot: ration.Slot("acme")},
		{Plan: "tenant", Key: "globex", Tag: "globex", Slot: ration.Slot("globex")},
	}, cross.Keys)
	for _, says := range []string{`"{acme}:user:7"`, `"globex"`, `"acme"`, fmt.Sprint(ration.Slot("acme")), fmt.Sprint(ration.Slot("globex"))} {
		require.ErrorContains(t, err, says)
	}

	for says, keys := range map[string]map[string]string{
		`the key of plan "day"`:          {"day": ""},
		"it has 513 bytes":               {"day": strings.Repeat("x", 513)},
		"a name that is not one of":      {"dya": "{acme}:x"},
		`it is empty: the key of plan "`: {"day": "{acme}:x"},
	} {
		key := "{acme}:user:7"
		if strings.HasPrefix(says, "it is empty") {
			key = ""
		}
		_, err = limiter.Take(t.Context(), ration.Request{Key: key, Cost: 1, Keys: keys})
		require.ErrorIs(t, err, ration.ErrInvalidKey)
		require.ErrorContains(t, err, says)
	}
	single, err := server.Client.Limiter("search", perSecond)
	require.NoError(t, err)
	_, err = single.Take(t.Context(), ration.Request{Key: "user:7", Cost: 1, Keys: map[string]string{"day": "user:7"}})
	require.ErrorIs(t, err, ration.ErrInvalidKey)
	require.Empty(t, server.NewRedis(t).Keys(t.Context(), "*").Val(), "nothing was charged")
}

// A cost that one plan can never admit is refused by its name; a negative one, too.
func TestCostsOfMultiPlanOfB47(t *testing.T) {
	t.Parallel()
	server, limiter := newMulti(t, checkout())
	_, err := limiter.AllowN(t.Context(), "{acme}:user:7", 11)
	require.ErrorIs(t, err, ration.ErrCostExceedsLimit)
	var cost *ration.CostError
	require.ErrorAs(t, err, &cost)
	require.Equal(t, ration.CostError{Plan: "second: gcra 10/s burst 10", Cost: 11, Limit: 10}, *cost)
	_, err = limiter.AllowN(t.Context(), "{acme}:user:7", -1)
	require.ErrorIs(t, err, ration.ErrInvalidCost)
	require.Empty(t, server.NewRedis(t).Keys(t.Context(), "*").Val())
	d, err := limiter.AllowN(t.Context(), "{acme}:user:7", 1)
	require.NoError(t, err)
	require.EqualValues(t, 9, d.Remaining)
}

// Two plans over the same time and key have a count each, by their names; so have limiters.
func TestPlansDoNotShareACounterOfB77(t *testing.T) {
	t.Parallel()
	window := func(limit int64) ration.FixedWindow { return ration.FixedWindow{Limit: limit, Window: time.Minute} }
	server, limiter := newMulti(t, ration.MultiPlan{{Name: "all", Plan: window(200)}, {Name: "bad", Plan: window(2)}})
	d, err := limiter.Allow(t.Context(), "user:7")
	require.NoError(t, err)
	require.EqualValues(t, 199, d.Plans[0].Remaining)
	require.EqualValues(t, 1, d.Plans[1].Remaining)

	all, err := server.Client.Limiter("all", window(200))
	require.NoError(t, err)
	bad, err := server.Client.Limiter("bad", window(2))
	require.NoError(t, err)
	for left := int64(199); left >= 197; left-- {
		d, err = all.Allow(t.Context(), "user:7")
		require.NoError(t, err)
		require.Equal(t, left, d.Remaining)
	}
	d, err = bad.Allow(t.Context(), "user:7")
	require.NoError(t, err)
	require.EqualValues(t, 1, d.Remaining)
}

// One name and key under one algorithm after the other, and under several at once, is never the wrong type.
func TestNoWrongTypeOfB97(t *testing.T) {
	t.Parallel()
	plans := []ration.Plan{
		ration.FixedWindow{Limit: 5, Window: time.Minute},
		ration.SlidingLog{Limit: 5, Window: time.Minute},
		ration.TokenBucket{Rate: ration.PerMinute(5), Burst: 5},
		ration.SlidingWindow{Limit: 5, Window: time.Minute},
		ration.GCRA{Rate: ration.PerMinute(5), Burst: 5},
	}
	server := rationtest.New(t)
	rdb := server.NewRedis(t)
	for _, plan := range plans {
		client, err := ration.New(rdb, ration.WithTimeout(10*time.Second))
		require.NoError(t, err)
		t.Cleanup(client.Close)
		single, err := client.Limiter("p", plan)
		require.NoError(t, err)
		d, err := single.Allow(t.Context(), "u")
		require.NoError(t, err)
		require.EqualValues(t, 4, d.Remaining, plan)
		multi, err := client.Limiter("q", ration.MultiPlan{{Name: "p", Plan: plan}})
		require.NoError(t, err)
		d, err = multi.Allow(t.Context(), "u")
		require.NoError(t, err)
		require.EqualValues(t, 4, d.Remaining, plan)
	}
}

// What is in the way of one plan's key charges no other.
func TestNothingIsChargedWhereAKeyHoldsSomethingElse(t *testing.T) {
	t.Parallel()
	server, limiter := newMulti(t, checkout())
	rdb := server.NewRedis(t)
	err := failure(limiter.Allow(t.Context(), "{acme}:user:7"))
	require.NoError(t, err)
	tenant := rdb.Keys(t.Context(), "*tenant*").Val()[0]
	require.NoError(t, rdb.Del(t.Context(), tenant).Err())
	require.NoError(t, rdb.Set(t.Context(), tenant, "garbage", 0).Err())
	err = failure(limiter.AllowN(t.Context(), "{acme}:user:7", 5))
	require.ErrorIs(t, err, ration.ErrUnavailable)
	require.ErrorIs(t, err, ration.ErrConfiguration)
	require.NoError(t, rdb.Del(t.Context(), tenant).Err())
	d, err := limiter.Peek(t.Context(), "{acme}:user:7")
	require.NoError(t, err)
	require.EqualValues(t, 999, d.Plans[1].Remaining)
}

// A key may have a MultiPlan of its own, of the same names, kinds and scopes.
func TestMultiPlanForKey(t *testing.T) {
	t.Parallel()
	gold := checkout()
	gold[1].Plan = ration.FixedWindow{Limit: 5000, Window: 24 * time.Hour}
	other := checkout()
	other[1].Name = "month"
	scoped := checkout()
	scoped[1].Scope = ration.PerTag
	_, limiter := newMulti(t, checkout(), ration.WithPlanFor(func(key string) (ration.Plan, bool) {
		return gold, strings.HasPrefix(key, "{gold}")
	}))
	for key, remaining := range map[string]int64{"{gold}:user:7": 4999, "{acme}:user:7": 999} {
		d, err := limiter.Allow(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, remaining, d.Plans[1].Remaining)
	}
	for _, plan := range []ration.Plan{other, scoped, checkout()[:2], perSecond} {
		_, err := limiter.Take(t.Context(), ration.Request{Key: "user:7", Cost: 1, Plan: plan})
		require.ErrorIs(t, err, ration.ErrPlanKind, plan)
	}
	bad := checkout()
	bad[0].Plan = ration.GCRA{}
	_, err := limiter.Take(t.Context(), ration.Request{Key: "user:7", Cost: 1, Plan: bad})
	require.ErrorIs(t, err, ration.ErrInvalidPlan)
}

// A limiter keeps the plans it was made of, whatever becomes of the list; a second of the name must have the same.
func TestMultiPlanIsCopied(t *testing.T) {
	t.Parallel()
	plan := checkout()
	server, limiter := newMulti(t, plan)
	plan[0].Name, plan[1].Plan = "changed", perSecond
	d, err := limiter.Allow(t.Context(), "user:7")
	require.NoError(t, err)
	require.Equal(t, "second", d.Plans[0].Name)
	_, err = server.Client.Limiter("checkout", checkout())
	require.NoError(t, err)
	_, err = server.Client.Limiter("checkout", plan)
	require.ErrorIs(t, err, ration.ErrLimiterConflict)
}

// An answer that cannot be is an error, whatever its shape.
func TestImpossibleAnswersToMultiPlan(t *testing.T) {
	t.Parallel()
	plan := ration.MultiPlan{{Name: "a", Plan: ration.GCRA{Rate: ration.PerSecond(1), Burst: 5}}, {Name: "b", Plan: perDay}}
	for _, answer := range [][]int64{
		{},
		{1},
		{1, 1_000_000, 0},
		{1, 1_000_000, 0, 999, 86_400_000},
		{1, 1_000_000, 0, 999, 86_400_000, 1, 1},
		{2, 1_000_000, 0, 999, 86_400_000, 1},
		{-1, 1_000_000, 0, 999, 86_400_000, 1},
		{1, -1, 0, 999, 86_400_000, 1},
		{1, 1_000_000, 0, 1000, 86_400_000, 1},
		{0, 1_000_000, 0, 999, 86_400_000, 1},
	} {
		_, err := ration.AfterTake(plan, answer, 1, 1)
		require.ErrorIs(t, err, ration.ErrUnavailable, answer)
	}
	d, err := ration.AfterTake(plan, []int64{1, 1_000_000, 0, 999, 86_400_000, 1}, 1, 1)
	require.NoError(t, err)
	require.True(t, d.Allowed)
}
