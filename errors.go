package ration

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The errors of this package. A denied request is none of them: it is a [Decision].
var (
	// ErrInvalidPlan is wrapped by the *[PlanError] of a plan that cannot be: a limit of 0, a window of half a
	// millisecond, numbers beyond exact arithmetic.
	ErrInvalidPlan = errors.New("ration: invalid plan")

	// ErrPlanKind is returned where the plan for one key or one call is of another kind than the limiter's.
	ErrPlanKind = errors.New("ration: plan of another kind than the limiter's")

	// ErrInvalidName is returned for a prefix or a limiter name that is not made of 1 to 128 of A-Z a-z 0-9 . _ -.
	ErrInvalidName = errors.New("ration: invalid name")

	// ErrInvalidOption is returned by New and Client.Limiter for an option out of its range, or a nil client.
	ErrInvalidOption = errors.New("ration: invalid option")

	// ErrLimiterConflict is returned where a Client already has a limiter of that name with another plan.
	ErrLimiterConflict = errors.New("ration: limiter exists with another plan")

	// ErrTooManyLimiters is returned where a Client has 10,000 limiters: a limiter is made once and kept, not made for
	// a request.
	ErrTooManyLimiters = errors.New("ration: too many limiters")

	// ErrInvalidKey is returned for a raw key that is empty or longer than 512 bytes.
	ErrInvalidKey = errors.New("ration: invalid key")

	// ErrInvalidCost is returned for a negative cost.
	ErrInvalidCost = errors.New("ration: invalid cost")

	// ErrCostExceedsLimit is wrapped by the *[CostError] of a request that no wait would let through.
	ErrCostExceedsLimit = errors.New("ration: cost exceeds the limit")

	// ErrCrossSlot is wrapped by the *[CrossSlotError] of a request whose keys do not live together.
	ErrCrossSlot = errors.New("ration: keys in different slots")

	// ErrForeignDecision is returned by Refund for a decision that the limiter did not make.
	ErrForeignDecision = errors.New("ration: decision of another limiter")

	// ErrUnavailable is wrapped by why Redis did not do what a call asked for: it was too slow, not there, or answered with a fault.
	// Of a decision that is Decision.Cause, of Reset, Refund and Ping the error. Whether it was charged is not known.
	ErrUnavailable = errors.New("ration: redis unavailable")

	// ErrTimeout is wrapped, beside ErrUnavailable, where a call ended with the timeout of its limiter.
	// Where nothing listens it is often this error too, since go-redis by default dials five times, with pauses, before it
	// says so; redis.Options.DialerRetries is how often.
	ErrTimeout = errors.New("ration: timeout")

	// ErrBreakerOpen is wrapped, beside ErrUnavailable, where a call was not sent, for the node of its key gave no
	// answer lately: see [Breaker].
	ErrBreakerOpen = errors.New("ration: breaker open")

	// ErrConfiguration is wrapped, beside ErrUnavailable, where Redis refused a call for a reason that no
	// waiting mends: a user without the permission (NOPERM, NOAUTH, WRONGPASS), keys in different slots (CROSSSLOT), a key that
	// holds something else (WRONGTYPE).
	ErrConfiguration = errors.New("ration: fault of configuration")

	// ErrClosed is returned by every call on a Client, and on its limiters, after Close. So it is by those that New and
	// Client.Limiter did not make.
	ErrClosed = errors.New("ration: client closed")
)

// PlanError says which field of which plan is wrong. It wraps ErrInvalidPlan.
type PlanError struct {
	Plan   string // the kind of the plan: "token-bucket"
	Field  string // the field of its struct: "Burst"; empty where the plan as a whole is wrong
	Reason string
}

func (e *PlanError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("ration: %s %s", e.Plan, e.Reason)
	}
	return fmt.Sprintf("ration: %s: %s %s", e.Plan, e.Field, e.Reason)
}

// Unwrap is ErrInvalidPlan.
func (e *PlanError) Unwrap() error { return ErrInvalidPlan }

// CostError says that a request asks for more than its plan can ever admit. It wraps ErrCostExceedsLimit.
type CostError struct {
	Plan  string // the plan as ParsePlan reads it; of a MultiPlan the one that can admit least, with its name; or a shard of it
	Cost  int64  // units
	Limit int64  // the greatest cost that can pass, units
}

func (e *CostError) Error() string {
	return fmt.Sprintf("ration: cost %d exceeds the %d that %s can ever admit", e.Cost, e.Limit, e.Plan)
}

// Unwrap is ErrCostExceedsLimit.
func (e *CostError) Unwrap() error { return ErrCostExceedsLimit }

// CrossSlotError says that the keys given for the plans of a [MultiPlan] are not in one slot of a Redis Cluster, where a script
// can reach them together. Give them one hash tag, as TaggedKey does. It wraps ErrCrossSlot.
type CrossSlotError struct {
	Keys []PlacedKey // of all plans, in their order
}

// PlacedKey is a key of a plan, and where it lives.
type PlacedKey struct {
	Plan string // the plan's name
	Key  string // as given
	Tag  string // what of it is hashed: its hash tag, or the whole
	Slot uint16 // 0 to 16383
}

func (e *CrossSlotError) Error() string {
	var s strings.Builder
	s.WriteString(ErrCrossSlot.Error())
	for _, k := range e.Keys {
		fmt.Fprintf(&s, "; plan %q: key %q, tag %q, slot %d", k.Plan, k.Key, k.Tag, k.Slot)
	}
	return s.String()
}

// Unwrap is ErrCrossSlot.
func (e *CrossSlotError) Unwrap() error { return ErrCrossSlot }

// ParseError points at the word of a rate or plan that was not understood.
type ParseError struct {
	Input  string
	Word   string // as it stands in Input; empty where a word is missing
	Offset int    // of Word in Input, bytes
	Reason string // what was wanted there
}

func (e *ParseError) Error() string {
	if e.Word == "" {
		return fmt.Sprintf("ration: %q: at its end: %s", e.Input, e.Reason)
	}
	return fmt.Sprintf("ration: %q: at %q: %s", e.Input, e.Word, e.Reason)
}

// Pointer is Input and, on a second line, carets under the word that was not understood, for a terminal.
func (e *ParseError) Pointer() string {
	before := []rune(e.Input[:e.Offset])
	return e.Input + "\n" + strings.Repeat(" ", len(before)) + strings.Repeat("^", max(len([]rune(e.Word)), 1))
}

// unavailableError is that of a call that Redis did not answer, or refused, and why. What kind of a failure it is is found out once,
// for each decision of an outage is told and counted by it.
type unavailableError struct {
	cause           error
	isFault         bool // Redis answered
	isConfiguration bool // no waiting mends it
}

func unavailable(cause error) error {
	return &unavailableError{cause: cause, isFault: isAnswer(cause), isConfiguration: errors.Is(cause, ErrConfiguration)}
}

// failureOf is the failure that an error is, or wraps; nil: it is another one, or none.
func failureOf(err error) *unavailableError {
	if of, ok := err.(*limiterError); ok { //nolint:errorlint // the outermost; what it wraps is looked at below
		err = of.err
	}
	if failed, ok := err.(*unavailableError); ok { //nolint:errorlint // most are
		return failed
	}
	failed, _ := errors.AsType[*unavailableError](err)
	return failed
}

func (e *unavailableError) Error() string {
	return ErrUnavailable.Error() + ": " + withoutPrefix(e.cause)
}

func (e *unavailableError) Is(target error) bool { return target == ErrUnavailable }
func (e *unavailableError) Unwrap() error        { return e.cause }

// configurationError is that of a call that Redis refuses as it is configured, and why.
type configurationError struct{ cause error }

func (e *configurationError) Error() string {
	return ErrConfiguration.Error() + ": " + withoutPrefix(e.cause)
}

func (e *configurationError) Is(target error) bool { return target == ErrConfiguration }
func (e *configurationError) Unwrap() error        { return e.cause }

// configurationFaults are how Redis begins the errors that no waiting mends.
var configurationFaults = []string{
	"CROSSSLOT", "WRONGTYPE", "NOPERM", "NOAUTH", "WRONGPASS",
	// Of these go-redis takes ERR away. What a user may not do is worded anew where a script does it, and in Redis 7.0 in a
	// way of its own.
	"unknown command", "Unknown Redis command", "Script attempted to access keys",
	"ACL failure in script", "The user executing the script can't",
	"Protocol error: unauthenticated", // NOAUTH of a command with many arguments
}

// refused is the error of a call that Redis, or the redis client, answered with an error. Redis before 7.0, and others like it,
// put what ended a script behind words of their own.
func refused(cause error) error {
	for _, fault := range configurationFaults {
		if redis.HasErrorPrefix(cause, fault) || redis.HasErrorPrefix(cause, "Error ") && strings.Contains(cause.Error(), ": "+fault) {
			return unavailable(&configurationError{cause})
		}
	}
	return unavailable(cause)
}

// limiterError says which limiter an error is of.
type limiterError struct {
	limiter string
	err     error
}

func (e *limiterError) Error() string {
	return fmt.Sprintf("%slimiter %q: %s", errorPrefix, e.limiter, withoutPrefix(e.err))
}

func (e *limiterError) Unwrap() error { return e.err }

const errorPrefix = "ration: "

// withoutPrefix is the text of an error that goes on behind another one of ours.
func withoutPrefix(err error) string { return strings.TrimPrefix(err.Error(), errorPrefix) }
