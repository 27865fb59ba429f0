package ration

// callQueue is a list of calls in the order they came. A call is in one list at most, and carries its neighbours itself.
type callQueue struct {
	first, last *call
	n           int
}

func (q *callQueue) push(c *call) {
	c.before, c.behind = q.last, nil
	if q.last == nil {
		q.first = c
	} else {
		q.last.behind = c
	}
	q.last = c
	q.n++
}

// pop takes the first call out; nil: there is none.
func (q *callQueue) pop() *call {
	c := q.first
	if c != nil {
		q.remove(c)
	}
	return c
}

// remove takes out a call that is in the list.
func (q *callQueue) remove(c *call) {
	if c.before == nil {
		q.first = c.behind
	} else {
		c.before.behind = c.behind
	}
	if c.behind == nil {
		q.last = c.before
	} else {
		c.behind.before = c.before
	}
	c.before, c.behind = nil, nil
	q.n--
}
