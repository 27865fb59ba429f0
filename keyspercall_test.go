package ration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/rationtest"
)

// byManyScript are the plans whose keys share script calls.
func byManyScript() []ration.Plan {
	var all []ration.Plan
	for _, plan := range sharedPlans {
		switch plan.(type) {
		case ration.SlidingLog, ration.MultiPlan:
		default:
			all = append(all, plan)
		}
	}
	return all
}

// Requests for several keys in one script call are decided as if each key was asked for alone, and can be given back one by one.
func TestKeysInOneScriptCall(t *testing.T) {
	t.Parallel()
	for _, plan := range byManyScript() {
		for _, cost := range []int64{0, 1, 3} {
			t.Run(fmt.Sprintf("%v/cost %d", plan, cost), func(t *testing.T) {
				t.Parallel()
				s := newSharing(t, plan)
				alone, err := s.Client.Limiter("alone", plan, ration.WithDenyCache(0))
				require.NoError(t, err)
				// Keys that were not asked for yet, that have something left, and that have nothing; asked for up to 12 times.
				var requests []ration.Request
				for i := range 5 {
					key := fmt.Sprint("key:", i)
					for _, l := range []*ration.Limiter{s.limiter, alone} {
						_, err = l.AllowUpTo(t.Context(), key, []int64{0, 1, 7, 10, 2}[i])
						require.NoError(t, err)
					}
					requests = append(requests, slices.Repeat([]ration.Request{{Key: key, Cost: cost}}, 1+i%2*11)...)
				}
				rand.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
				together := s.take(t, requests...)
				calls, flushes := s.scripts()
				require.Equal(t, 1, calls, "script calls")
				require.Equal(t, 1, flushes)
				oneByOne := make([]ration.Decision, len(requests))
				for i, r := range requests {
					oneByOne[i], err = alone.Take(t.Context(), r)
					require.NoError(t, err)
					require.Equal(t, withoutReceipt(oneByOne[i]), withoutReceipt(together[i]), "request %d, of %s", i, r.Key)
				}
				for _, i := range rand.Perm(len(requests)) {
					require.NoError(t, s.limiter.Refund(t.Context(), together[i]))
					require.NoError(t, alone.Refund(t.Context(), oneByOne[i]))
					want, err := alone.Peek(t.Context(), requests[i].Key)
					require.NoError(t, err)
					got, err := s.limiter.Peek(t.Context(), requests[i].Key)
					require.NoError(t, err)
					require.Equal(t, want, got, "after the refund of %d", i)
				}
			})
		}
	}
}

// distinct are requests for n keys.
func distinct(n int) []ration.Request {
	all := make([]ration.Request, n)
	for i := range all {
		all[i] = ration.Request{Key: fmt.Sprint("key:", i), Cost: 1}
	}
	return all
}

// No script call is for more keys than it may be.
func TestKeysPerCallAreBounded(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]int{1: 70, 2: 35, 32: 3} {
		s := newSharing(t, ration.GCRA{Rate: ration.PerSecond(1), Burst: 10}, ration.WithKeysPerCall(most))
		for _, d := range s.take(t, distinct(70)...) {
			require.True(t, d.Allowed)
			require.EqualValues(t, 9, d.Remaining)
		}
		calls, flushes := s.scripts()
		require.Equal(t, want, calls)
		require.Equal(t, 1, flushes)
	}
	rdb := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = rdb.Close() })
	for _, wrong := range []int{-1, 0, 33} {
		_, err := ration.New(rdb, ration.WithKeysPerCall(wrong))
		require.ErrorIs(t, err, ration.ErrInvalidOption)
		require.ErrorContains(t, err, "WithKeysPerCall")
	}
}

// Keys under plans of their own, and under plans of other limiters, go by script calls of their own.
func TestKeysOfSeveralPlans(t *testing.T) {
	t.Parallel()
	s := newSharing(t, ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 10})
	large := ration.TokenBucket{Rate: ration.PerSecond(1), Burst: 20}
	requests := distinct(6)
	for i := range requests {
		if i%2 == 1 {
			requests[i].Plan = large
		}
	}
	for i, d := range s.take(t, requests...) {
		require.Equal(t, []int64{9, 19}[i%2], d.Remaining)
	}
	calls, _ := s.scripts()
	require.Equal(t, 2, calls)
}

// Where something else is stored at one of the keys, that key alone has the error, and is as it was.
func TestOneOfTheKeysHoldsSomethingElse(t *testing.T) {
	t.Parallel()
	for _, plan := range byManyScript() {
		t.Run(plan.String(), func(t *testing.T) {
			t.Parallel()
			s := newSharing(t, plan, ration.OnFailure(ration.FailClosed()))
			broken := s.limiter.StoredKey("key:1")
			require.NoError(t, s.NewRedis(t).ZAdd(t.Context(), broken, redis.Z{Score: 1, Member: "a"}).Err())
			requests := append(distinct(3), ration.Request{Key: "key:1", Cost: 1}, ration.Request{Key: "key:2", Cost: 1})
			for i, d := range s.take(t, requests...) {
				if requests[i].Key == "key:1" {
					require.ErrorIs(t, d.Cause, ration.ErrConfiguration)
					require.ErrorContains(t, d.Cause, "WRONGTYPE")
					continue
				}
				require.NoError(t, d.Cause)
				require.True(t, d.Allowed)
			}
			held, err := s.NewRedis(t).ZCard(t.Context(), broken).Result()
			require.NoError(t, err)
			require.EqualValues(t, 1, held)
			for key, want := range map[string]int64{"key:0": 9, "key:2": 8} {
				d, err := s.limiter.Peek(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, want, d.Remaining, key)
			}
		})
	}
}

// refusal is a hook that answers script calls with several keys by an error of Redis, or ends them otherwise.
type refusal func(next redis.ProcessHook, ctx context.Context, cmd redis.Cmder) error

func (refusal) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r refusal) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && asText(cmd.Args()[2]) != "1" {
			return r(next, ctx, cmd)
		}
		return next(ctx, cmd)
	}
}

func (refusal) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// serverError is an error that Redis answers.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError marks it as one.
func (serverError) RedisError() {}

func answers(text string) refusal {
	return func(_ redis.ProcessHook, _ context.Context, cmd redis.Cmder) error {
		cmd.SetErr(serverError(text))
		return cmd.Err()
	}
}

// sharingWith is a sharing whose script calls with several keys meet a refusal.
func sharingWith(t *testing.T, r refusal) *sharing {
	t.Helper()
	plan := ration.GCRA{Rate: ration.PerSecond(1), Burst: 10}
	s := newSharing(t, plan)
	rdb := s.NewRedis(t)
	rdb.AddHook(s.gate)
	rdb.AddHook(r)
	client, err := ration.New(rdb, ration.WithTimeout(time.Minute), silent, neverOpen, ration.OnFailure(ration.FailClosed()))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	s.client = client
	s.limiter, err = client.Limiter("search", plan)
	require.NoError(t, err)
	return s
}

// Keys that Redis will not have in one script call are sent by themselves: at once and, where they are of different slots, from then on.
func TestKeysThatCannotShareAScriptCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer      string
		first, then int // script calls
		fails       bool
	}{
		{answer: "CROSSSLOT Keys in request don't hash to the same slot", first: 9, then: 8},
		{answer: "NOPERM No permissions to access one of the keys used", first: 9, then: 9},
		{answer: "TRYAGAIN Multiple keys request during rehashing of slot", first: 9, then: 9},
		{answer: "NOSCRIPT No matching script. Please use EVAL.", first: 1, then: 1},
		{answer: "ERR so many keys at once", first: 1, then: 1, fails: true},
	} {
		t.Run(c.answer[:6], func(t *testing.T) {
			t.Parallel()
			s := sharingWith(t, answers(c.answer))
			for round, want := range []int{c.first, c.then} {
				for i, d := range s.take(t, distinct(8)...) {
					if c.fails {
						require.ErrorContains(t, d.Cause, c.answer, "request %d", i)
						continue
					}
					require.NoError(t, d.Cause, "request %d", i)
					require.EqualValues(t, 9-round, d.Remaining, "charged once in each round")
				}
				calls, _ := s.scripts()
				require.Equal(t, want, calls, "round %d", round)
				s.release = make(chan struct{})
			}
		})
	}
}

// Whatever a hook of the user's redis client does with such a script call, its requests end, and so do later ones.
func TestHookOfKeysInOneScriptCall(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]refusal{
		"panic":  func(redis.ProcessHook, context.Context, redis.Cmder) error { panic("in a hook") },
		"goexit": func(redis.ProcessHook, context.Context, redis.Cmder) error { runtime.Goexit(); return nil },
		"error":  func(redis.ProcessHook, context.Context, redis.Cmder) error { return errors.New("in a hook") },
		"nil":    func(redis.ProcessHook, context.Context, redis.Cmder) error { return (*nilError)(nil) },
		"answer": func(redis.ProcessHook, context.Context, redis.Cmder) error { return (*nilAnswerError)(nil) },
		"short": func(_ redis.ProcessHook, _ context.Context, cmd redis.Cmder) error {
			cmd.(interface{ SetVal(val []int64) }).SetVal([]int64{1, 1, 1})
			return nil
		},
		"swallow": func(redis.ProcessHook, context.Context, redis.Cmder) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sharingWith(t, r)
			for i, d := range s.take(t, distinct(8)...) {
				require.ErrorIs(t, d.Cause, ration.ErrUnavailable, "request %d", i)
				require.False(t, d.Allowed)
			}
			d, err := s.limiter.Allow(t.Context(), "later")
			require.NoError(t, err)
			require.NoError(t, d.Cause)
		})
	}
}

// nilError is an error that cannot be looked at where it is nil, as a hook may return it, and nilAnswerError one that says it is of Redis.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

type nilAnswerError struct{ nilError }

func (*nilAnswerError) RedisError() {}

// An error that cannot be looked at ends nothing but its call, however many there are.
func TestErrorsThatCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"error": (*nilError)(nil), "answer": (*nilAnswerError)(nil)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := rationtest.New(t).NewRedis(t)
			rdb.AddHook(failing{err})
			client, err := ration.New(rdb, silent)
			require.NoError(t, err)
			t.Cleanup(client.Close)
			limiter, err := client.Limiter("search", ration.FixedWindow{Limit: 10, Window: time.Minute})
			require.NoError(t, err)
			for range 30 { // the breaker opens meanwhile
				d, err := limiter.Allow(t.Context(), "key")
				require.NoError(t, err)
				require.ErrorIs(t, d.Cause, ration.ErrUnavailable)
				require.NotEmpty(t, d.Cause.Error())
			}
		})
	}
}

// failing is a hook that fails whatever is sent.
type failing struct{ err error }

func (failing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f failing) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return f.err }
}

func (f failing) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return f.err }
}

// A panic while the redis client looks for the nodes of a cluster ends nothing but the calls that wait for that.
func TestPanicWhileNodesAreLookedUp(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		if strings.Contains(string(debug.Stack()), "(*flush)") {
			panic("in the user's function")
		}
		return nil, errors.New("no nodes")
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := ration.New(rdb, silent, ration.WithTimeout(time.Minute), ration.OnFailure(ration.FailClosed()))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("search", ration.FixedWindow{Limit: 10, Window: time.Minute})
	require.NoError(t, err)
	d, err := limiter.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.ErrorContains(t, d.Cause, "in the user's function")
}

// A level that no bucket can have is told of as for its key alone, though it is like what the script replies where it cannot decide.
func TestImpossibleLevelAmongKeys(t *testing.T) {
	t.Parallel()
	plan := ration.TokenBucket{Rate: ration.PerHour(1), Burst: 10}
	for _, level := range []string{"-1", "-2", "-7"} {
		s := newSharing(t, plan, ration.OnFailure(ration.FailClosed()))
		stored, now := s.limiter.StoredKey("key:1"), fmt.Sprint(s.Now().UnixMicro())
		require.NoError(t, s.NewRedis(t).HSet(t.Context(), stored, "l", level, "p", "0", "t", now, "b", "10 1 3600000000").Err())
		for i, d := range s.take(t, distinct(3)...) {
			if i == 1 {
				require.ErrorContains(t, d.Cause, "the key holds what no token-bucket")
				continue
			}
			require.NoError(t, d.Cause)
		}
	}
}

// A caller that leaves such a script call has its grant given back, and no other.
func TestCallerLeavesKeysInOneScriptCall(t *testing.T) {
	t.Parallel()
	s := newSharing(t, ration.GCRA{Rate: ration.PerMinute(1), Burst: 10})
	s.hold(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := make(chan error)
	var all sync.WaitGroup
	for i := range 5 {
		of, key := t.Context(), fmt.Sprint("held:together:", i)
		if i == 2 {
			go func() { left <- failure(s.limiter.Allow(ctx, key)) }()
		} else {
			all.Go(func() {
				if d, err := s.limiter.Allow(of, key); err != nil || !d.Allowed {
					t.Error(d, err)
				}
			})
		}
		s.queue(i + 1)
	}
	for range ration.MostFlying {
		s.release <- struct{}{}
	}
	<-s.gate.held // all are in one script call now
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	s.open()
	all.Wait()
	s.client.Close() // which waits for what is given back
	for i := range 5 {
		d, err := ration.LookAt(s.Server.Client, s.limiter, fmt.Sprint("held:together:", i))
		require.NoError(t, err)
		if i == 2 {
			require.EqualValues(t, 10, d)
		} else {
			require.EqualValues(t, 9, d)
		}
	}
}
