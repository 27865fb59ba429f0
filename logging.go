package ration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// lineLimit lets so many lines of a kind through in a second, and counts those that it does not.
type lineLimit struct {
	mu     sync.Mutex
	began  int64 // the second, nanos
	shown  int
	hidden int64 // since the last one that was shown
}

const linesPerSecond = 5

// line says whether a line may be shown, and how many were not before it; or else whether it is the first of those that are not, so
// that somebody has to tell of them when the second is over.
func (l *lineLimit) line() (show bool, hidden int64, isFirstHidden bool) {
	now := nanos()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown == 0 || now-l.began >= int64(time.Second) {
		l.began, l.shown = now, 0
	}
	if l.shown < linesPerSecond {
		l.shown++
		hidden, l.hidden = l.hidden, 0
		return true, hidden, false
	}
	l.hidden++
	return false, 0, l.hidden == 1
}

// rest is how many were not shown, of which nobody has told.
func (l *lineLimit) rest() (hidden int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hidden, l.hidden = l.hidden, 0
	return hidden
}

// limiterLines bounds the lines of a limiter: those of decisions without Redis, and those of denials.
type limiterLines struct{ degraded, denied lineLimit }

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
	show, hidden, isFirstHidden := some.line()
	switch {
	case show:
		line := append([]slog.Attr{slog.String("limiter", limiter)}, attrs()...)
		if hidden > 0 {
			line = append(line, slog.Int64("not_shown", hidden))
		}
		r.log(ctx, level, message, line...)
	case isFirstHidden:
		time.AfterFunc(time.Second, func() {
			if n := some.rest(); n > 0 {
				r.log(context.Background(), level, message+", more", slog.String("limiter", limiter), slog.Int64("not_shown", n))
			}
		})
	}
}

// logDecision writes a line about a decision that Redis did not make, or denied.
func (r *reporter) logDecision(ctx context.Context, l *Limiter, a asked, d *Decision) {
	if d.Cause == nil && d.Allowed {
		return
	}
	level, some, message := slog.LevelDebug, &l.lines.denied, "denied"
	switch {
	case errors.Is(d.Cause, ErrConfiguration):
		level, some, message = slog.LevelError, &l.lines.degraded, "decided without redis, which is not configured for this"
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

// logFleet writes a line about a fleet that cannot be counted.
func (r *reporter) logFleet(limiter string, cause error) {
	r.log(context.Background(), slog.LevelError, "the fleet cannot be counted, so that its shares in an outage are not known",
		slog.String("limiter", limiter), slog.String("cause", withoutPrefix(cause)))
}

// logPanic writes a line about an observer that panicked.
func (r *reporter) logPanic(p any) {
	if show, hidden, _ := r.panics.line(); show {
		r.log(context.Background(), slog.LevelError, "an observer panicked",
			slog.String("panic", fmt.Sprint(p)), slog.Int64("not_shown", hidden))
	}
}
