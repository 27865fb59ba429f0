package ration

// order is what Redis is asked to do. Of orders that are takes, those of one key, plan and cost may be filled together: Redis grants as
// many of them as fit.
type order struct {
	script *script // nil: a take, or a plain command, which is args alone
	keys   []any   // stored; those of a script
	// lead are the arguments that differ from call to call, and args the plan's.
	lead, args []any

	// A take is one request of so many units under a plan, for a key as it is counted.
	take *preparedPlan
	key  string
	cost int64
}

// mergeKey is what takes that are filled together have in common. A prepared plan is of one limiter.
type mergeKey struct {
	plan *preparedPlan
	key  string
	cost int64
}

func (o *order) mergeKey() mergeKey { return mergeKey{o.take, o.key, o.cost} }

// scriptFor is what fills so many orders like this one; nil: no script.
func (o *order) scriptFor(count int) *script {
	switch {
	case o.take == nil:
		return o.script
	case count == 1 && o.take.one != nil:
		return o.take.one
	default:
		return o.take.take
	}
}

// commandFor is the command that fills so many orders like this one.
func (o *order) commandFor(count int) command {
	s := o.scriptFor(count)
	switch {
	case s == nil:
		return newPlainCommand(o.args...)
	case o.take == nil:
		return newCommand(s, o.keys, o.lead, o.args)
	case s == o.take.one:
		return newCommand(s, o.keys, []any{o.take.cost(o.cost)}, o.take.args)
	default:
		return newCommand(s, o.keys, []any{o.take.cost(o.cost), int64(count)}, o.take.args)
	}
}

// storedKey is where the order is about; empty: nowhere.
func (o *order) storedKey() string {
	if len(o.keys) == 0 {
		return ""
	}
	return o.keys[0].(string)
}
