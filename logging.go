package ration

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// lineLimit lets five lines of a kind through, and one more for every five seconds; it counts those that it does not.
type lineLimit struct {
	// quietUntil is until when none passes, nanos; 0: none has passed yet. It is looked at before the lock, for most lines of an outage
	// are not shown.
	quietUntil atomic.Int64
	hidden     atomic.Int64 // since the last that was shown
	watched    atomic.Bool  // somebody looks whether there are some of which no line tells

	mu      sync.Mutex
	fullAt  int64 // when five may pass again at once, nanos
	shownAt int64 // when the last one was, nanos
}

const (
	linesAtOnce = 5
	linesApart  = 5 * time.Second
)

// line says whether a line may be shown, and how many were not before it; or else whether somebody has to look from time to time
// whether there are some that no line tells of.
func (l *lineLimit) line() (show bool, hidden int64, isUnwatched bool) {
	if now := nanos(); !l.isQuiet(now) && l.pass(now) {
		return true, l.hidden.Swap(0), false
	}
	l.hidden.Add(1)
	return false, 0, !l.watched.Load() && l.watched.CompareAndSwap(false, true)
}

func (l *lineLimit) isQuiet(now int64) bool {
	until := l.quietUntil.Load()
	return until != 0 && now < until
}

// pass says whether a line may be shown.
func (l *lineLimit) pass(now int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.isQuiet(now):
		return false
	case l.quietUntil.Load() == 0:
		l.fullAt = now
	}
	l.shownAt = now
	l.fullAt = max(l.fullAt, now) + int64(linesApart)
	l.quietUntil.Store(cmp.Or(l.fullAt-(linesAtOnce-1)*int64(linesApart), -1))
	return true
}

// rest is how many were not shown, if no line has told of them for long; or whether to look again.
func (l *lineLimit) rest() (hidden int64, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hidden.Load() > 0 && nanos()-l.shownAt < 2*int64(linesApart) {
		return 0, true
	}
	l.watched.Store(false) // first, for who hides one later looks whether somebody watches
	return l.hidden.Swap(0), false
}

// limiterLines bounds the lines of a limiter: those of decisions without Redis, and those of denials.
type limiterLines struct {
	degraded, denied lineLimit
	// degradedAt is when the last decision without Redis was made, nanos, until it is told that Redis decides again; 0: told.
	degradedAt atomic.Int64
	// decidedAt is when Redis last decided since then, nanos: what is granted of a lease may be from before the outage, and what is denied by memory too.
	decidedAt atomic.Int64
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

// shows says whether a line may be written, and how many were not before it; of those that may not it tells later how many.
func (r *reporter) shows(some *lineLimit, level slog.Level, limiter, message string) (show bool, hidden int64) {
	show, hidden, isUnwatched := some.line()
	if isUnwatched {
		r.logRest(some, level, limiter, message)
	}
	return show, hidden
}

// logRest tells of the lines that were not shown and that no line has told of, when there are no more.
func (r *reporter) logRest(some *lineLimit, level slog.Level, limiter, message string) {
	time.AfterFunc(2*linesApart, func() {
		switch n, again := some.rest(); {
		case again:
			r.logRest(some, level, limiter, message)
		case n > 0:
			attrs := []slog.Attr{slog.Int64("not_shown", n)}
			if limiter != "" {
				attrs = append([]slog.Attr{slog.String("limiter", limiter)}, attrs...)
			}
			r.log(context.Background(), level, message+", more", attrs...)
		}
	})
}

// decided notes that Redis has decided, if that is to be told.
func (l *limiterLines) decided() {
	if l.degradedAt.Load() != 0 {
		l.decidedAt.Store(nanos())
	}
}

// logDecision writes a line about a decision that Redis did not make, or denied.
func (r *reporter) logDecision(ctx context.Context, l *Limiter, a asked, d *Decision) {
	at := l.lines.degradedAt.Load()
	switch {
	case d.Cause != nil:
		l.lines.degradedAt.Store(nanos() | 1)
	case at != 0 && l.lines.decidedAt.Load() > at && nanos()-at > int64(calm) && l.lines.degradedAt.CompareAndSwap(at, 0):
		attrs := []slog.Attr{slog.String("limiter", l.name)}
		if hidden := l.lines.degraded.hidden.Swap(0); hidden > 0 {
			attrs = append(attrs, slog.Int64("not_shown", hidden))
		}
		r.log(ctx, slog.LevelInfo, "decided by redis again", attrs...)
	}
	if d.Cause == nil && d.Allowed {
		return
	}
	level, some, message := slog.LevelDebug, &l.lines.denied, "denied"
	switch failed := failureOf(d.Cause); {
	case failed != nil && failed.isConfiguration:
		level, some, message = slog.LevelError, &l.lines.degraded, "decided without redis, which refuses the call: password, permission or key"
	case d.Cause != nil:
		level, some, message = slog.LevelWarn, &l.lines.degraded, "decided without redis"
	}
	if !r.isEnabled(ctx, level) {
		return
	}
	if show, hidden := r.shows(some, level, l.name, message); show {
		r.log(ctx, level, message, r.attrsOf(l, a, d, hidden)...)
	}
}

// attrsOf are those of a line about a decision.
func (r *reporter) attrsOf(l *Limiter, a asked, d *Decision, hidden int64) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("limiter", l.name), slog.String("plan", d.Plan), slog.Int64("cost", a.cost*a.count),
		slog.Bool("allowed", d.Allowed), slog.String("source", string(d.Source)),
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
	if hidden > 0 {
		attrs = append(attrs, slog.Int64("not_shown", hidden))
	}
	return attrs
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
	const message = "an observer panicked"
	if show, hidden := r.shows(&r.panics, slog.LevelError, "", message); show {
		r.log(context.Background(), slog.LevelError, message, slog.String("panic", fmt.Sprint(p)), slog.Int64("not_shown", hidden))
	}
}
