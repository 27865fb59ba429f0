package ration

import (
	"strconv"
	"strings"
	"time"
)

// ParsePlan reads a plan as its String writes it:
//
//	fixed-window 60/1m                   60 units per window of a minute
//	fixed-window 60/1m aligned           windows on the server's clock grid
//	fixed-window 5/15m restart-on-deny   a refused attempt starts the window again
//	sliding-window 60/2h                 60 units per window of two hours, by an estimate
//	sliding-log 60/2h                    60 units in any two hours
//	token-bucket 1/2s burst 5            refilled at 1 unit per 2 s, at most 5
//	gcra 1/2s burst 5                    the same, kept as a single moment
//	a: gcra 10/s burst 9 + b: gcra 1/s burst 9 per-tag   a MultiPlan of plans a and b, b for the hash tag
//
// Words are separated by spaces. The error is a *[ParseError] that points at the word it does not understand, or the
// *[PlanError] of a plan that is well written and cannot be.
func ParsePlan(s string) (Plan, error) {
	p := planParser{input: s, words: splitWords(s), end: wordAt{"", len(s)}}
	plan := p.plan()
	if p.err != nil {
		return nil, p.err
	}
	if _, err := prepare(plan); err != nil {
		return nil, err
	}
	return plan, nil
}

// planParser reads the words of a plan from left to right. After an error it stands still.
type planParser struct {
	input string
	words []wordAt
	end   wordAt // where the words end: at another one, or at the end of the input
	err   error
}

type wordAt struct {
	text   string
	offset int
}

func splitWords(s string) []wordAt {
	var words []wordAt
	rest := s
	for _, text := range strings.Fields(s) {
		i := strings.Index(rest, text)
		words = append(words, wordAt{text, len(s) - len(rest) + i})
		rest = rest[i+len(text):]
	}
	return words
}

func (p *planParser) plan() Plan {
	if len(p.words) > 0 && strings.HasSuffix(p.words[0].text, ":") {
		return parseMultiPlan(p)
	}
	return p.single()
}

// single reads a plan that is not a MultiPlan.
func (p *planParser) single() Plan {
	const kinds = "want fixed-window, sliding-window, sliding-log, token-bucket or gcra"
	kind, ok := p.next(kinds)
	if !ok {
		return nil
	}
	var plan Plan
	switch kind.text {
	case fixedWindowName:
		plan = parseFixedWindow(p)
	case slidingWindowName:
		plan = parseSlidingWindow(p)
	case slidingLogName:
		plan = parseSlidingLog(p)
	case tokenBucketName:
		plan = parseTokenBucket(p)
	case gcraName:
		plan = parseGCRA(p)
	default:
		p.fail(kind, kinds)
	}
	if p.err == nil && len(p.words) > 0 {
		p.fail(p.words[0], "want nothing more")
	}
	return plan
}

// next takes a word off; where none is left, that is an error which says what was wanted.
func (p *planParser) next(wanted string) (wordAt, bool) {
	if p.err != nil {
		return wordAt{}, false
	}
	if len(p.words) == 0 {
		p.fail(p.end, wanted)
		return wordAt{}, false
	}
	word := p.words[0]
	p.words = p.words[1:]
	return word, true
}

// quota takes a word such as 60/2h off.
func (p *planParser) quota() (units int64, span time.Duration) {
	word, ok := p.next("want units per time, such as 100/s or 60/2h")
	if !ok {
		return 0, 0
	}
	units, span, err := parseQuota(word.text)
	if err != nil {
		p.fail(wordAt{err.word, word.offset + err.offset}, err.reason)
	}
	return units, span
}

// rateAndBurst takes words such as 100/s burst 20 off.
func (p *planParser) rateAndBurst() (rate Rate, burst int64) {
	rate.Units, rate.Per = p.quota()
	if word, ok := p.next("want burst and a number of units"); ok && word.text != "burst" {
		p.fail(word, "want burst and a number of units")
	}
	if word, ok := p.next("want a number of units"); ok {
		n, err := strconv.ParseInt(word.text, 10, 64)
		if err != nil {
			p.fail(word, "want a whole number of units")
		}
		burst = n
	}
	return rate, burst
}

func (p *planParser) fail(at wordAt, reason string) {
	if p.err == nil {
		p.err = &ParseError{Input: p.input, Word: at.text, Offset: at.offset, Reason: reason}
	}
}
