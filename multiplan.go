package ration

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// MultiPlan is several plans at once, all or nothing: a request is granted under every one of them, or it is denied and
// charged to none. For "10 a second per user, and 1,000 a day per user, and 500 a second per tenant":
//
//	ration.MultiPlan{
//		{Name: "second", Plan: ration.GCRA{Rate: ration.PerSecond(10), Burst: 10}},
//		{Name: "day", Plan: ration.FixedWindow{Limit: 1000, Window: 24 * time.Hour}},
//		{Name: "tenant", Plan: ration.GCRA{Rate: ration.PerSecond(500), Burst: 500}, Scope: ration.PerTag},
//	}
//
// Guarantee: that of each plan, at once. A decision is one script call on one key for each plan, all in one slot, by one
// reading of the server's clock.
//
// Of a [Decision], Plan names the plan that binds: of a denial that with the longest wait, else that with the least left in
// proportion to its limit. Limit and Remaining are the least of all plans, RetryAfter and ResetAfter the longest, so that they
// say of all together what they say of one. Plans has those of each.
//
// A plan is known by its name: what was counted under it stays with it when others come, go or change their order with a deploy. As a
// plan of WithPlanFor or Request.Plan it must have the names, kinds and scopes of the limiter's, in the same order; it is then put
// together anew for each request.
//
// The zero value is refused, as is RestartOnDeny in one of the plans. Stored: what each plan stores.
type MultiPlan []NamedPlan

// NamedPlan is one plan of a [MultiPlan].
type NamedPlan struct {
	// Name is the plan's name in stored keys and decisions: 1 to 128 of A-Z a-z 0-9 . _ -. No other of the MultiPlan has it.
	Name string
	// Plan is any plan but a MultiPlan, and no FixedWindow with RestartOnDeny.
	Plan Plan
	// Scope says whom the plan counts for. Unless set, it is PerKey.
	Scope Scope
}

// Scope says whom a plan of a [MultiPlan] counts for.
type Scope int

const (
	// PerKey counts for the whole key: of {acme}:user:7 for that user.
	PerKey Scope = iota
	// PerTag counts for the hash tag of the key: of {acme}:user:7 for acme, together with all other keys of the tag. A key
	// without a hash tag counts as a whole.
	PerTag
)

const (
	// maxPlans is the most plans of a MultiPlan.
	maxPlans = 16

	multiPlanName   = "multi-plan"
	multiPlanPerTag = "per-tag"
)

// String is the plan as ParsePlan reads it: "second: gcra 10/s burst 10 + tenant: gcra 500/s burst 500 per-tag".
func (p MultiPlan) String() string {
	var s strings.Builder
	for i, named := range p {
		if i > 0 {
			s.WriteString(" + ")
		}
		fmt.Fprintf(&s, "%s: %v", named.Name, named.Plan)
		if named.Scope == PerTag {
			s.WriteString(" " + multiPlanPerTag)
		}
	}
	return s.String()
}

func (p MultiPlan) prepare() (*preparedPlan, error) { return p.prepareEach(prepare) }

// parseMultiPlan reads plans as MultiPlan.String writes them.
func parseMultiPlan(p *planParser) Plan {
	var all MultiPlan
	for p.err == nil {
		word, ok := p.next("want a name and a colon")
		if !ok {
			break
		}
		name, found := strings.CutSuffix(word.text, ":")
		if !found {
			p.fail(word, "want a name and a colon")
			break
		}
		named := NamedPlan{Name: name}
		one := planParser{input: p.input, words: p.words, end: p.end}
		plus := slices.IndexFunc(p.words, func(w wordAt) bool { return w.text == "+" })
		if plus >= 0 {
			one.words, one.end = p.words[:plus], p.words[plus]
		}
		if n := len(one.words); n > 0 && one.words[n-1].text == multiPlanPerTag {
			named.Scope, one.words, one.end = PerTag, one.words[:n-1], one.words[n-1]
		}
		named.Plan = one.single()
		all, p.err = append(all, named), one.err
		if plus < 0 {
			p.words = nil
			break
		}
		p.words = p.words[plus+1:]
	}
	return all
}

// part is a plan of a MultiPlan, made ready.
type part struct {
	*preparedPlan
	name  string
	scope Scope
}

// prepareEach makes the plan ready of its plans, made ready by a function.
func (p MultiPlan) prepareEach(prepare func(Plan) (*preparedPlan, error)) (*preparedPlan, error) {
	if len(p) == 0 || len(p) > maxPlans {
		return nil, &PlanError{Plan: multiPlanName, Reason: fmt.Sprintf("has %d plans: must have 1 to %d", len(p), maxPlans)}
	}
	all := &preparedPlan{
		plan:   slices.Clone(p),
		kind:   multiPlanName,
		limit:  exactBound,
		unit:   1,
		take:   &multiPlanTake,
		peek:   &multiPlanPeek,
		refund: &multiPlanRefund,
	}
	for i, named := range p {
		one, err := p.preparePart(i, prepare)
		if err != nil {
			return nil, err
		}
		all.parts = append(all.parts, part{one, named.Name, named.Scope})
		all.kind += fmt.Sprintf(" %s:%s/%d", named.Name, one.kind, named.Scope)
		all.limit = min(all.limit, one.limit)
		all.sharesTag = all.sharesTag || named.Scope == PerTag
		all.args = append(all.args, one.argsOfOne...)
	}
	all.text, all.argsUpTo, all.costOfOne = p.String(), all.args, all.unit
	return all, nil
}

// preparePart makes one of the plans ready, or says what is wrong with it.
func (p MultiPlan) preparePart(i int, prepare func(Plan) (*preparedPlan, error)) (*preparedPlan, error) {
	named := p[i]
	refuse := func(field, format string, args ...any) (*preparedPlan, error) {
		return nil, &PlanError{Plan: multiPlanName, Field: fmt.Sprintf("[%d].%s", i, field), Reason: fmt.Sprintf(format, args...)}
	}
	if !isName(named.Name) {
		return refuse("Name", "is %q: want 1 to %d of A-Z a-z 0-9 . _ -", named.Name, maxName)
	}
	if slices.ContainsFunc(p[:i], func(other NamedPlan) bool { return other.Name == named.Name }) {
		return refuse("Name", "is %q, as that of another plan", named.Name)
	}
	if named.Scope != PerKey && named.Scope != PerTag {
		return refuse("Scope", "is %d: want PerKey or PerTag", named.Scope)
	}
	switch plan := named.Plan.(type) {
	case nil:
		return refuse("Plan", "is nil")
	case MultiPlan:
		return refuse("Plan", "is a MultiPlan")
	case FixedWindow:
		if plan.RestartOnDeny {
			return refuse("Plan.RestartOnDeny", "cannot be in a MultiPlan")
		}
	}
	one, err := prepare(named.Plan)
	if wrong := (*PlanError)(nil); errors.As(err, &wrong) {
		return nil, &PlanError{Plan: fmt.Sprintf("plan %q: %s", named.Name, wrong.Plan), Field: wrong.Field, Reason: wrong.Reason}
	}
	return one, err
}

// afterTakeOfAll is what the answer of the script means to `count` requests of `cost` units each.
func (p *preparedPlan) afterTakeOfAll(answer []int64, cost, count int64) (Decision, error) {
	d, err := p.decideAll(answer, cost, count, func(one *preparedPlan) *script { return one.take })
	if err == nil && answer[0] > 0 {
		d.Allowed, d.RetryAfter = true, 0
	}
	return d, err
}

// afterPeekOfAll is what the answer of the script means to a request for one unit.
func (p *preparedPlan) afterPeekOfAll(answer []int64) (Decision, error) {
	d, err := p.decideAll(answer, 1, 0, func(one *preparedPlan) *script { return one.peek })
	if d.Remaining > 0 {
		d.Allowed, d.RetryAfter = true, 0
	}
	return d, err
}

// eachReply splits an answer of a script of several plans into the replies of their own scripts.
func (p *preparedPlan) eachReply(answer []int64, own func(one *preparedPlan) *script) ([]reply, error) {
	replies := make([]reply, 0, len(p.parts))
	rest := answer[min(1, len(answer)):]
	for _, one := range p.parts {
		fields := own(one.preparedPlan).fields - 1
		if len(rest) < fields {
			rest = nil
			break
		}
		r := reply{answer[0]}
		copy(r[1:], rest[:fields])
		replies, rest = append(replies, r), rest[fields:]
	}
	if len(replies) < len(p.parts) || len(rest) > 0 {
		return nil, unavailable(fmt.Errorf("%d integers in the reply are not those of %s", len(answer), p.text))
	}
	return replies, nil
}

// decideAll is what an answer says of the state of all plans that `count` requests, of `cost` units each, left.
func (p *preparedPlan) decideAll(
	answer []int64, cost, count int64, own func(one *preparedPlan) *script,
) (Decision, error) {
	replies, err := p.eachReply(answer, own)
	if err != nil {
		return Decision{}, err
	}
	granted := answer[0]
	all := Decision{
		Granted:   granted * cost,
		Limit:     p.limit,
		Remaining: p.limit,
		Source:    SourceRedis,
		Plans:     make([]PlanDecision, len(p.parts)),
	}
	for i, one := range p.parts {
		o, plausible := one.outcomeOf(replies[i], cost, count)
		if !plausible {
			return Decision{}, one.implausible(replies[i])
		}
		if granted > 0 || cost <= o.remaining {
			o.retryAfter = 0
		}
		all.Plans[i] = PlanDecision{one.name, one.text, one.limit, o.remaining, o.retryAfter, o.resetAfter}
		all.Remaining = min(all.Remaining, o.remaining)
		all.RetryAfter = max(all.RetryAfter, o.retryAfter)
		all.ResetAfter = max(all.ResetAfter, o.resetAfter)
	}
	if granted == 0 && count > 0 && all.RetryAfter == 0 {
		return Decision{}, unavailable(fmt.Errorf("the keys hold what no %s can have left: the reply is %d", p.text, answer))
	}
	all.Plan = binding(all.Plans)
	return all, nil
}

// binding is the name of the plan that binds: with the longest wait, if any has to wait, else with the least left in
// proportion to its limit.
func binding(plans []PlanDecision) string {
	return slices.MaxFunc(plans, func(a, b PlanDecision) int {
		return cmp.Or(cmp.Compare(a.RetryAfter, b.RetryAfter), compareProducts(b.Remaining, a.Limit, a.Remaining, b.Limit))
	}).Name
}

// compareProducts compares a*b and c*d, of numbers that are not negative.
func compareProducts(a, b, c, d int64) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	otherHi, otherLo := bits.Mul64(uint64(c), uint64(d))
	return cmp.Or(cmp.Compare(hi, otherHi), cmp.Compare(lo, otherLo))
}

// takenOfAll is what the refund script of several plans is told of a grant, by the answer to it.
func (p *preparedPlan) takenOfAll(answer []int64, units int64) []any {
	replies, err := p.eachReply(answer, func(one *preparedPlan) *script { return one.take })
	if err != nil {
		return nil // not of an answer that a Decision was made of
	}
	var args []any
	for i, one := range p.parts {
		args = append(append(append(args, one.argsOfOne[0]), one.taken(replies[i], units)...), one.argsRefund...)
	}
	return args
}

// PlanDecision is what a [Decision] says of one plan of a [MultiPlan].
type PlanDecision struct {
	Name string // of the plan
	Plan string // the plan as ParsePlan reads it
	// Limit is the most units the plan can ever grant at once, Remaining how many could be taken now under it alone.
	Limit, Remaining int64
	// RetryAfter is the least wait after which this plan grants a request that was denied; zero if it would have now.
	RetryAfter time.Duration
	// ResetAfter is the time until the plan's key is as good as new.
	ResetAfter time.Duration
}
