package ration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// lineLimit lets five lines of a kind through, and one more for every five seconds; it counts those that it does not.
type lineLimit struct {
	mu      sync.Mutex
	begun   bool
	fullAt  int64 // when five may pass again at once, nanos
	shownAt int64 // when the last one was, nanos
	hidden  int64 // since then
	watched bool  // somebody looks whether there are some of which no line tells
}

const (
	linesAtOnce = 5
	linesApart  = 5 * time.Second
)

// line says whether a line may be shown, and how many were not before it; or else whether somebody has to look from time to time
// whether there are some that no line tells of.
func (l *lineLimit) line() (show bool, hidden int64, isUnwatched bool) {
	now := nanos()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun || l.fullAt < now {
		l.begun, l.fullAt = true, now
	}
	if l.fullAt-now <= (linesAtOnce-1)*int64(linesApart) {
		l.fullAt += int64(linesApart)
		l.shownAt = now
		hidden, l.hidden = l.hidden, 0
		return true, hidden, false
	}
	l.hidden++
	isUnwatched = !l.watched
	l.watched = true
	return false, 0, isUnwatched
}

// rest is how many were not shown, if no line has told of them for long; or whether to look again.
func (l *lineLimit) rest() (hidden int64, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hidden > 0 && nanos()-l.shownAt < 2*int64(linesApart) {
		return 0, true
	}
	hidden, l.hidden, l.watched = l.hidden, 0, false
	return hidden, false
}

// limiterLines bounds the lines of a limiter: those of decisions without Redis, and those of denials.
type limiterLines struct {
	degraded, denied lineLimit
	// degradedAt is when the last decision without Redis was made, nanos, until it is told that Redis decides again; 0: told.
	degradedAt atomic.Int64
}

// calm is how long Redis has to decide before it is told.
const calm = time.Second

// log writes a line. What the handler does wrong stays with it.
func (r *reporter) log(ctx context.Context, level slog.Level, message string, attrs ...slog.Attr) {
	defer func() { _ = recover() }()
	r.handler().LogAttrs(orBackground(ctx), level, errorPrefix+message, attrs...)
}

func (r *reporter) handler() *slog.Logger {
	if r.logger != nil {
		return r.logger
	}
	return slog.Default()
}

// logSome writes a line, unless there were too many like it; then it tells later how many.
func (r *reporter) logSome(
	ctx context.Context, some *lineLimit, level slog.Level, limiter, message string, attrs func() []slog.Attr,
) {
	show, hidden, isUnwatched := some.line()
	switch {
	case show:
		line := append([]slog.Attr{slog.String("limiter", limiter)}, attrs()...)
		if hidden > 0 {
			line = append(line, slog.Int64("not_shown", hidden))
		}
		r.log(ctx, level, message, line...)
	case isUnwatched:
		r.logRest(some, level, limiter, message)
	}
}

// logRest tells of the lines that were not shown and that no line has told of, when there are no more.
func (r *reporter) logRest(some *lineLimit, level slog.Level, limiter, message string) {
	time.AfterFunc(2*linesApart, func() {
		switch n, again := some.rest(); {
		case again:
			r.logRest(some, level, limiter, message)
		case n > 0:
			r.log(context.Background(), level, message+", more", slog.String("limiter", limiter), slog.Int64("not_shown", n))
		}
	})
}

// logDecision writes a line about a decision that Redis did not make, or denied.
func (r *reporter) logDecision(ctx context.Context, l *Limiter, a asked, d *Decision) {
	at := l.lines.degradedAt.Load()
	switch {
	case d.Cause != nil:
		l.lines.degradedAt.Store(nanos() | 1)
	case at != 0 && nanos()-at > int64(calm) && l.lines.degradedAt.CompareAndSwap(at, 0):
		r.log(ctx, slog.LevelInfo, "decided by redis again", slog.String("limiter", l.name))
	}
	if d.Cause == nil && d.Allowed {
		return
	}
	level, some, message := slog.LevelDebug, &l.lines.denied, "denied"
	switch {
	case errors.Is(d.Cause, ErrConfiguration):
		level, some, message = slog.LevelError, &l.lines.degraded, "decided without redis, which refuses the call: password, permission or key"
	case d.Cause != nil:
		level, some, message = slog.LevelWarn, &l.lines.degraded, "decided without redis"
	}
	if !r.isEnabled(ctx, level) {
		return
	}
	r.logSome(ctx, some, level, l.name, message, func() []slog.Attr {
		attrs := []slog.Attr{
			slog.String("plan", d.Plan), slog.Int64("cost", a.cost*a.count), slog.Bool("allowed", d.Allowed),
			slog.String("source", string(d.Source)),
		}
		if r.withKeys {
			attrs = append(attrs, slog.String("key", a.key))
		}
		if !d.Allowed {
			attrs = append(attrs, slog.Duration("retry_after", d.RetryAfter))
		}
		if d.Source == SourceLocal {
			attrs = append(attrs, slog.Int64("fleet", l.fleetSize()))
		}
		if d.Cause != nil {
			attrs = append(attrs, slog.String("cause", causeText(d.Cause)))
		}
		return attrs
	})
}

func (r *reporter) isEnabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() { _ = recover() }()
	return r.handler().Enabled(orBackground(ctx), level)
}

// causeText is an error without the limiter's name, which the line has.
func causeText(cause error) string {
	if of, ok := cause.(*limiterError); ok { //nolint:errorlint // the outermost
		cause = of.err
	}
	return withoutPrefix(cause)
}

// logBreaker writes a line about a node that does not answer any more, or does again.
func (r *reporter) logBreaker(o ObservedBreaker) {
	var attrs []slog.Attr
	if o.Node != "" {
		attrs = append(attrs, slog.String("node", o.Node))
	}
	if o.Open {
		r.log(context.Background(), slog.LevelWarn, "redis does not answer, and is not asked for a while",
			append(attrs, slog.String("cause", withoutPrefix(o.Cause)))...)
		return
	}
	r.log(context.Background(), slog.LevelInfo, "redis answers again", append(attrs, slog.Duration("after", o.After))...)
}

// logFleet writes a line about a fleet that cannot be counted, and how large it is taken to be.
func (r *reporter) logFleet(limiter string, size int64, cause error) {
	r.log(context.Background(), slog.LevelError, "redis refuses to count the fleet, whose size was last known or is that of WithFleetSize",
		slog.String("limiter", limiter), slog.Int64("fleet", size), slog.String("cause", withoutPrefix(cause)))
}

// logPanic writes a line about an observer that panicked.
func (r *reporter) logPanic(p any) {
	if show, hidden, _ := r.panics.line(); show {
		r.log(context.Background(), slog.LevelError, "an observer panicked",
			slog.String("panic", fmt.Sprint(p)), slog.Int64("not_shown", hidden))
	}
}
