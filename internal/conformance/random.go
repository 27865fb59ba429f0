package conformance

import (
	"context"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/model"
)

// Twin is a plan's double in process, for one key.
type Twin interface {
	TakeAt(nowMicros, cost, count int64, upTo bool) ration.Decision
	PeekAt(nowMicros int64) ration.Decision
	RefundAt(nowMicros int64, d ration.Decision)
}

// counter is a Limiter that decides several requests at once.
type counter interface {
	TakeCount(ctx context.Context, key string, plan ration.Plan, cost, count int64) (ration.Decision, error)
	// GivesCountsBack says whether Refund knows of all that TakeCount took.
	GivesCountsBack() bool
}

// RunRandom does operations at random on the backend and on the exact model, and compares every field of every reply: takes,
// refunds, looks and peeks, at moments forth and back, under plans that change, with keys that get lost. Where newTwin is not nil, the
// twins do the same as long as a plan does not change.
//
// How often is a matter of the flag -rapid.checks; a check does some 30 operations, each a take and, where the plan does not
// change, a peek. It says how many they were, and fails where they are fewer than RATION_LEAST_OPERATIONS, if that is set. A
// failure is shrunk, and kept in testdata/rapid to be tried first from then on.
func RunRandom(t *testing.T, backend Backend, newTwin func(plan ration.Plan) (Twin, error)) {
	t.Helper()
	operations := 0
	for _, kind := range []struct {
		name string
		draw func(t *rapid.T) ration.Plan
		twin func(plan ration.Plan) (Twin, error)
	}{
		{"fixed-window", drawFixedWindow, newTwin},
		{"sliding-window", drawSlidingWindow, newTwin},
		{"sliding-log", drawSlidingLog, newTwin},
		{"token-bucket", drawBucket, newTwin},
		{"gcra", drawGCRA, newTwin},
		{"multi-plan", drawMultiPlan, nil},
	} {
		t.Run(kind.name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				w := newWalk(t, r, backend, kind.draw(r), kind.twin)
				defer w.cleanUp(r)
				for range rapid.IntRange(1, 100).Draw(r, "operations") {
					w.step(r, kind.draw)
					operations++
				}
			})
		})
	}
	t.Logf("%d operations", operations)
	if least := os.Getenv("RATION_LEAST_OPERATIONS"); least != "" {
		n, err := strconv.Atoi(least)
		require.NoError(t, err)
		require.GreaterOrEqual(t, operations, n, "operations: raise -rapid.checks")
	}
}

// walk drives a backend, a model and a twin with the same operations on one key.
type walk struct {
	backend Backend
	limiter Limiter
	key     string
	model   model.Model
	newTwin func(plan ration.Plan) (Twin, error)
	twin    Twin // nil: left out
	plan    ration.Plan
	now     time.Time
	answer  ration.Decision // the last one
	grants  []grant         // not given back yet, of the key as it is

	changes, losses, refunds bool
	steps                    bool // the clock steps back
	lives                    bool // keys live as long as they are set to; else for ever
}

// grant is what each knows a grant by.
type grant struct {
	decision, twins ration.Decision
	model           model.Grant
}

func newWalk(t *testing.T, r *rapid.T, backend Backend, plan ration.Plan, newTwin func(ration.Plan) (Twin, error)) *walk {
	n := fresh.Add(1)
	w := &walk{
		backend: backend,
		limiter: backend.Limiter(t, fmt.Sprintf("random-%d", n), plan),
		key:     fmt.Sprintf("key-%d", n),
		model:   model.New(plan),
		newTwin: newTwin,
		plan:    plan,
		now:     T0.Add(time.Duration(rapid.Int64Range(0, 1_000_000).Draw(r, "start")) * time.Microsecond),
		changes: rapid.Bool().Draw(r, "changes"),
		losses:  rapid.Bool().Draw(r, "losses"),
		refunds: rapid.Bool().Draw(r, "refunds"),
		steps:   rapid.Bool().Draw(r, "steps"),
	}
	// A key may die while the clock is ahead, or not, when the server happens to look; and a plan that comes later may see
	// more in a key than the one that it dies under. So where the clock steps back or the plan changes, keys live on. The
	// end of a fixed window is the end of its key.
	ends := hasFixedWindow(plan)
	if _, isMulti := plan.(ration.MultiPlan); isMulti {
		// Of its plans some would have to live on, and some not.
		w.changes, w.steps = false, false
	}
	w.lives = ends || !w.steps && !w.changes
	if _, isGCRA := plan.(ration.GCRA); isGCRA && w.changes {
		// Each plan has a key of its own; and one that lived on while another plan was used would come round again.
		w.lives, w.steps = true, false
	}
	w.steps = w.steps && (!ends || backend.StepsBack())
	w.startTwin(r)
	w.pass(0)
	return w
}

func (w *walk) startTwin(r *rapid.T) {
	w.twin = nil
	if w.newTwin != nil && !w.changes {
		twin, err := w.newTwin(w.plan)
		require.NoError(r, err)
		w.twin = twin
	}
}

// pass lets time pass. Of windows whose end is that of a key, miniredis knows whole milliseconds only.
func (w *walk) pass(d time.Duration) {
	w.now = w.now.Add(d)
	if hasFixedWindow(w.plan) && !w.backend.StepsBack() {
		w.now = w.now.Truncate(time.Millisecond)
	}
	w.backend.SetTime(w.now)
}

func (w *walk) step(r *rapid.T, draw func(*rapid.T) ration.Plan) {
	w.pass(w.drawPause(r))
	if w.changes && rapid.IntRange(0, 5).Draw(r, "change") == 0 {
		w.plan = draw(r)
		w.model.Change(w.plan)
		w.pass(0)
	}
	if w.losses && rapid.IntRange(0, 15).Draw(r, "lose") == 0 {
		for _, stored := range w.stored(r) {
			require.NoError(r, w.backend.Redis().Del(r.Context(), stored).Err())
		}
		w.model, w.grants = model.New(w.plan), nil
		w.startTwin(r)
	}
	if w.refunds && len(w.grants) > 0 && rapid.IntRange(0, 2).Draw(r, "refund") == 0 {
		w.refund(r)
	}
	w.take(r)
	w.peek(r)
	w.lifetimes(r)
}

func (w *walk) drawPause(r *rapid.T) time.Duration {
	unit := w.drawScale(r)
	pause := time.Duration(rapid.OneOf(
		rapid.Just(int64(0)),
		rapid.Int64Range(0, int64(unit)),
		rapid.Int64Range(0, int64(3*unit)),
		rapid.Map(rapid.Int64Range(0, 8), func(n int64) int64 { return n * int64(unit) / 4 }),
	).Draw(r, "pause")).Truncate(time.Microsecond)
	if !w.steps || rapid.IntRange(0, 7).Draw(r, "back") > 0 {
		return pause
	}
	if _, ends := w.plan.(ration.FixedWindow); ends && w.answer.ResetAfter == 0 {
		return pause // a key that ended in this millisecond may be there or not
	}
	far := rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, min(2*limitOf(w.plan), 2000))).Draw(r, "far")
	return -min(pause*time.Duration(far), w.now.Sub(T0.AddDate(-1, 0, 0)))
}

// drawScale is that of the plan, or of one of several.
func (w *walk) drawScale(r *rapid.T) time.Duration {
	if all, isMulti := w.plan.(ration.MultiPlan); isMulti {
		return scale(rapid.SampledFrom(all).Draw(r, "scale of").Plan)
	}
	return scale(w.plan)
}

// hasFixedWindow says whether a plan is a FixedWindow, or has one.
func hasFixedWindow(plan ration.Plan) bool {
	if all, isMulti := plan.(ration.MultiPlan); isMulti {
		return slices.ContainsFunc(all, func(one ration.NamedPlan) bool { return hasFixedWindow(one.Plan) })
	}
	_, isFixed := plan.(ration.FixedWindow)
	return isFixed
}

func (w *walk) take(r *rapid.T) {
	limit := limitOf(w.plan)
	ask := model.Ask{
		Cost:  rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, min(3, limit)), rapid.Int64Range(0, limit)).Draw(r, "cost"),
		Count: 1,
	}
	many, isCounter := w.limiter.(counter)
	refundable := true
	var got ration.Decision
	var err error
	switch shape := rapid.IntRange(0, 3).Draw(r, "shape"); {
	case shape == 0 && w.isOwnPlan():
		n := rapid.Int64Range(1, 2*limit).Draw(r, "up to")
		ask = model.Ask{Cost: 1, Count: min(n, limit), UpTo: true}
		got, err = w.limiter.AllowUpTo(r.Context(), w.key, n)
	case shape == 1 && isCounter:
		ask.Count = rapid.Int64Range(1, 5).Draw(r, "count")
		got, err = many.TakeCount(r.Context(), w.key, w.plan, ask.Cost, ask.Count)
		refundable = many.GivesCountsBack()
	default:
		got, err = w.limiter.Take(r.Context(), ration.Request{Key: w.key, Cost: ask.Cost, Plan: w.plan})
	}
	require.NoError(r, err, "at %v, %+v", w.now, ask)
	require.NoError(r, got.Cause, "at %v, %+v", w.now, ask)
	answer := w.model.Take(w.now.UnixMicro(), ask)
	require.Equal(r, w.expected(answer, ask), readable(got), "at %v, %+v", w.now, ask)
	granted := grant{decision: got, model: answer.Grant}
	if w.twin != nil {
		granted.twins = w.twin.TakeAt(w.now.UnixMicro(), ask.Cost, ask.Count, ask.UpTo)
		require.Equal(r, readable(got), readable(granted.twins), "twin, at %v, %+v", w.now, ask)
	}
	if got.Granted > 0 && refundable {
		w.grants = append(w.grants, granted)
	}
	w.answer = got
}

// readable is a decision without what Refund needs of it.
func readable(d ration.Decision) ration.Decision {
	return ration.Decision{
		Allowed: d.Allowed, Granted: d.Granted, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter, Source: d.Source, Plan: d.Plan, Plans: d.Plans,
	}
}

// refund gives one of the last grants back.
func (w *walk) refund(r *rapid.T) {
	i := len(w.grants) - 1 - rapid.IntRange(0, min(len(w.grants)-1, 5)).Draw(r, "grant")
	given := w.grants[i]
	w.grants = slices.Delete(w.grants, i, i+1)
	times := 1
	if _, once := w.plan.(ration.SlidingLog); once && rapid.Bool().Draw(r, "twice") {
		times = 2
	}
	for range times {
		require.NoError(r, w.limiter.Refund(r.Context(), given.decision))
		w.model.Refund(w.now.UnixMicro(), given.model)
		if w.twin != nil {
			w.twin.RefundAt(w.now.UnixMicro(), given.twins)
		}
	}
}

// isOwnPlan says whether the plan is that of the limiter, which AllowUpTo and Peek are decided under.
func (w *walk) isOwnPlan() bool { return !w.changes }

func (w *walk) peek(r *rapid.T) {
	if !w.isOwnPlan() {
		return
	}
	got, err := w.limiter.Peek(r.Context(), w.key)
	require.NoError(r, err)
	answer := w.model.Take(w.now.UnixMicro(), model.Ask{Cost: 1, Count: 0})
	answer.Grant = nil
	want := w.expected(answer, model.Ask{Cost: 1})
	want.Allowed = want.Remaining > 0
	if want.Allowed {
		want.RetryAfter = 0
	}
	require.Equal(r, want, readable(got), "peek at %v", w.now)
	if w.twin != nil {
		require.Equal(r, readable(got), w.twin.PeekAt(w.now.UnixMicro()), "peek of the twin at %v", w.now)
	}
}

// expected is the decision that the model's answer amounts to.
func (w *walk) expected(a model.Answer, ask model.Ask) ration.Decision {
	d := ration.Decision{
		Allowed:    a.Granted > 0,
		Granted:    a.Granted * ask.Cost,
		Limit:      limitOf(w.plan),
		Remaining:  a.Remaining,
		ResetAfter: time.Duration(a.ResetAfter) * time.Microsecond,
		Source:     ration.SourceRedis,
		Plan:       w.plan.String(),
	}
	if !d.Allowed {
		d.RetryAfter = time.Duration(a.RetryAfter) * time.Microsecond
	}
	if all, isMulti := w.plan.(ration.MultiPlan); isMulti {
		expectEach(&d, all, a)
	}
	return d
}

// expectEach adds to a decision what it says of each plan, and which binds: that with the longest wait, else with the least
// left in proportion, the first of those.
func expectEach(d *ration.Decision, plans ration.MultiPlan, a model.Answer) {
	var longest int64
	var least *big.Rat
	for i, one := range plans {
		answer := a.Each[i]
		d.Plans = append(d.Plans, ration.PlanDecision{
			Name:       one.Name,
			Plan:       one.Plan.String(),
			Limit:      limitOf(one.Plan),
			Remaining:  answer.Remaining,
			RetryAfter: time.Duration(answer.RetryAfter) * time.Microsecond,
			ResetAfter: time.Duration(answer.ResetAfter) * time.Microsecond,
		})
		left := big.NewRat(answer.Remaining, limitOf(one.Plan))
		if i == 0 || answer.RetryAfter > longest || answer.RetryAfter == longest && left.Cmp(least) < 0 {
			d.Plan, longest, least = one.Name, answer.RetryAfter, left
		}
	}
}

// lifetimes: what is stored lives at least until it no longer matters, and not for ever.
func (w *walk) lifetimes(r *rapid.T) {
	stored := w.stored(r)
	if !w.lives {
		for _, key := range stored {
			require.NoError(r, w.backend.Redis().Persist(r.Context(), key).Err())
		}
		return
	}
	longest := int64(0)
	for _, key := range stored {
		left, err := w.backend.Redis().Do(r.Context(), "PTTL", key).Int64()
		require.NoError(r, err)
		require.NotEqual(r, int64(-1), left, "lifetime at %v", w.now) // but -2: it has ended since
		longest = max(longest, left)
	}
	require.GreaterOrEqual(r, longest, w.answer.ResetAfter.Milliseconds(), "lifetime at %v", w.now)
}

func (w *walk) stored(r *rapid.T) []string {
	keys, err := w.backend.Redis().Keys(r.Context(), "*:{"+w.key+"}").Result()
	require.NoError(r, err)
	return keys
}

func (w *walk) cleanUp(r *rapid.T) {
	for _, key := range w.stored(r) {
		require.NoError(r, w.backend.Redis().Del(context.Background(), key).Err())
	}
}
