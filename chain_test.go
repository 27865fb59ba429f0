package ration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

func perMinute(limit int64) ration.FixedWindow {
	return ration.FixedWindow{Limit: limit, Window: time.Minute}
}

// everyone counts all keys as one.
func everyone() ration.LimiterOption {
	return ration.WithKeyFor(func(string) string { return "everyone" })
}

// newChain makes a chain of a limiter for each user and one for all.
func newChain(t *testing.T, client *ration.Client, ofUser, ofAll ration.Plan) (c *ration.LimiterChain, user, all *ration.Limiter) {
	t.Helper()
	user, err := client.Limiter("user", ofUser)
	require.NoError(t, err)
	all, err = client.Limiter("all", ofAll, everyone())
	require.NoError(t, err)
	c, err = ration.Chain(user, all)
	require.NoError(t, err)
	return c, user, all
}

func remaining(t *testing.T, l *ration.Limiter, key string) int64 {
	t.Helper()
	d, err := l.Peek(t.Context(), key)
	require.NoError(t, err)
	return d.Remaining
}

// What a later limiter denies, the earlier ones get back; what all admit is charged to all.
func TestChain(t *testing.T) {
	t.Parallel()
	client := rationtest.New(t).Client
	chain, user, all := newChain(t, client, perMinute(5), perMinute(7))
	d, err := chain.AllowN(t.Context(), "user:7", 4)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.EqualValues(t, 4, d.Granted)
	require.EqualValues(t, 5, d.Limit)
	require.EqualValues(t, 1, d.Remaining)
	require.Equal(t, "user", d.Plan)
	require.Equal(t, []ration.PlanDecision{
		{Name: "user", Plan: "fixed-window 5/1m", Limit: 5, Remaining: 1, ResetAfter: time.Minute},
		{Name: "all", Plan: "fixed-window 7/1m", Limit: 7, Remaining: 3, ResetAfter: time.Minute},
	}, d.Plans)

	d, err = chain.AllowN(t.Context(), "user:8", 4)
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Zero(t, d.Granted)
	require.Equal(t, "all", d.Plan)
	require.Equal(t, time.Minute, d.RetryAfter)
	require.Len(t, d.Plans, 1)
	require.EqualValues(t, 5, remaining(t, user, "user:8"), "given back")
	require.EqualValues(t, 3, remaining(t, all, ""))

	d, err = chain.AllowN(t.Context(), "user:7", 2)
	require.NoError(t, err)
	require.Equal(t, "user", d.Plan)
	require.EqualValues(t, 3, remaining(t, all, "any"), "not asked")

	d, err = chain.Take(t.Context(), ration.Request{Key: "user:7", Cost: 1})
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.NoError(t, chain.Refund(t.Context(), d))
	require.EqualValues(t, 1, remaining(t, user, "user:7"))
	require.EqualValues(t, 3, remaining(t, all, ""))
	d, err = chain.AllowN(t.Context(), "user:7", 0)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.NoError(t, chain.Refund(t.Context(), d), "nothing was taken")
}

// A limiter of several plans is one of a chain too.
func TestChainOfMultiPlan(t *testing.T) {
	t.Parallel()
	client := rationtest.New(t).Client
	chain, user, _ := newChain(t, client, ration.MultiPlan{
		{Name: "second", Plan: perSecond}, {Name: "tenant", Plan: perMinute(6), Scope: ration.PerTag},
	}, perMinute(9))
	d, err := chain.AllowN(t.Context(), "{acme}:user:7", 6)
	require.NoError(t, err)
	require.Equal(t, "user/tenant", d.Plan)
	require.Len(t, d.Plans, 3)
	d, err = chain.AllowN(t.Context(), "{acme}:user:7", 4)
	require.NoError(t, err)
	require.Equal(t, "user/tenant", d.Plan)
	require.Len(t, d.Plans, 2)
	d, err = chain.AllowN(t.Context(), "{globex}:user:7", 4)
	require.NoError(t, err)
	require.Equal(t, "all", d.Plan)
	require.EqualValues(t, 6, remaining(t, user, "{globex}:user:7"))
}

func TestChainRefuses(t *testing.T) {
	t.Parallel()
	client := rationtest.New(t).Client
	chain, user, all := newChain(t, client, perMinute(5), perMinute(7))
	many := make([]*ration.Limiter, 17)
	for i := range many {
		many[i], _ = client.Limiter(fmt.Sprint("limiter", i), perMinute(1))
	}
	for says, limiters := range map[string][]*ration.Limiter{
		"has 0 limiters":           {},
		"has 17 limiters":          many,
		"limiter 1 is nil":         {user, nil},
		"limiter 0 is nil, or":     {new(ration.Limiter)},
		`"user" is there twice`:    {user, all, user},
		`limiter 2 is nil, or not`: {user, all, nil},
	} {
		_, err := ration.Chain(limiters...)
		require.ErrorIs(t, err, ration.ErrInvalidOption)
		require.ErrorContains(t, err, says)
	}

	// A mistake is found before anything is charged.
	for want, r := range map[error]ration.Request{
		ration.ErrInvalidKey:       {Cost: 1},
		ration.ErrInvalidCost:      {Key: "user:7", Cost: -1},
		ration.ErrCostExceedsLimit: {Key: "user:7", Cost: 6},
		ration.ErrPlanKind:         {Key: "user:7", Cost: 1, Plan: perMinute(1)},
		errors.New("Keys are not"): {Key: "user:7", Cost: 1, Keys: map[string]string{"user": "x"}},
	} {
		_, err := chain.Take(t.Context(), r)
		if strings.HasPrefix(want.Error(), "Keys") {
			require.ErrorIs(t, err, ration.ErrInvalidKey)
			continue
		}
		require.ErrorIs(t, err, want)
	}
	require.EqualValues(t, 5, remaining(t, user, "user:7"))

	other, err := client.Limiter("other", perMinute(5))
	require.NoError(t, err)
	otherChain, err := ration.Chain(user, other)
	require.NoError(t, err)
	d, err := otherChain.AllowN(t.Context(), "user:7", 2)
	require.NoError(t, err)
	require.ErrorIs(t, chain.Refund(t.Context(), d), ration.ErrForeignDecision)
	require.EqualValues(t, 3, remaining(t, user, "user:7"), "nothing went back")
	require.NoError(t, otherChain.Refund(t.Context(), d))
	d, err = user.Allow(t.Context(), "user:7")
	require.NoError(t, err)
	require.ErrorIs(t, chain.Refund(t.Context(), d), ration.ErrForeignDecision)
	for _, zero := range []*ration.LimiterChain{nil, {}} {
		_, err = zero.Allow(t.Context(), "user:7")
		require.ErrorIs(t, err, ration.ErrClosed)
		require.ErrorIs(t, zero.Refund(t.Context(), d), ration.ErrClosed)
	}
}

// The worst case: under concurrent load no limiter admits more than it would alone, and at its end each has charged exactly
// what was admitted.
func TestChainUnderLoad(t *testing.T) {
	t.Parallel()
	client := rationtest.New(t).Client
	chain, user, all := newChain(t, client, perMinute(1000), perMinute(37))
	var admitted atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				d, err := chain.Allow(t.Context(), "user:7")
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 37, admitted.Load())
	require.EqualValues(t, 1000-37, remaining(t, user, "user:7"))
	require.Zero(t, remaining(t, all, ""))
}

// A refund that is lost leaves the units of the earlier limiters charged, and nothing else; a limiter that fails is an error, and
// the earlier ones have their units back.
func TestChainWhenRedisFails(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	rdb := server.NewRedis(t)
	var cut atomic.Value // the digest of the script that does not get through
	lost := 0
	rdb.AddHook(processHook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if isScript(cmd, cut.Load()) {
			lost++
			return errors.New("cut")
		}
		return next(ctx, cmd)
	}))
	client, err := ration.New(rdb, ration.WithTimeout(10*time.Second), ration.OnFailure(ration.FailClosed()))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	gcra := ration.GCRA{Rate: ration.PerMinute(1), Burst: 3}
	chain, user, all := newChain(t, client, perMinute(5), gcra)

	cut.Store(digestOf(t, "gcra_one"))
	d, err := chain.Allow(t.Context(), "user:7")
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Equal(t, "all", d.Plan)
	require.Equal(t, ration.SourceFailClosed, d.Source)
	require.ErrorIs(t, d.Cause, ration.ErrUnavailable)
	require.ErrorContains(t, d.Cause, `limiter "all"`)
	require.EqualValues(t, 5, remaining(t, user, "user:7"), "given back")

	lost = 0
	cut.Store(digestOf(t, "fixedwindow_refund"))
	d, err = chain.AllowN(t.Context(), "user:7", 3)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	d, err = chain.Allow(t.Context(), "user:7")
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Equal(t, "all", d.Plan)
	require.Equal(t, 1, lost)
	require.EqualValues(t, 5-3-1, remaining(t, user, "user:7"), "the lost refund stays charged")
	require.Zero(t, remaining(t, all, ""))
}

// A caller that leaves has its units given back all the same.
func TestChainWhoseCallerLeaves(t *testing.T) {
	t.Parallel()
	server := rationtest.New(t)
	rdb := server.NewRedis(t)
	ctx, leave := context.WithCancel(t.Context())
	rdb.AddHook(processHook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if isScript(cmd, digestOf(t, "gcra_one")) {
			leave()
			<-ctx.Done()
			return ctx.Err()
		}
		return next(ctx, cmd)
	}))
	client, err := ration.New(rdb, ration.WithTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	chain, user, _ := newChain(t, client, perMinute(5), ration.GCRA{Rate: ration.PerMinute(1), Burst: 3})
	_, err = chain.Allow(ctx, "user:7")
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 5, remaining(t, user, "user:7"))
}

// digestOf is the digest of a script.
func digestOf(t *testing.T, name string) string {
	t.Helper()
	for _, s := range ration.Scripts() {
		if s.Name == name {
			return s.Digest
		}
	}
	t.Fatal("no script ", name)
	return ""
}

// isScript says whether a command calls a script by its digest.
func isScript(cmd redis.Cmder, digest any) bool {
	return len(cmd.Args()) > 1 && digest != nil && cmd.Args()[1] == digest
}
