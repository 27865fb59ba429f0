package ration_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// defaultLog is what is logged by clients that are not told where.
var defaultLog, defaultLogger = newLog()

func TestDefaultLogger(t *testing.T) {
	t.Parallel()
	rdb, _ := countingRedis(t)
	client, err := ration.New(rdb)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	limiter, err := client.Limiter("of-the-default-logger", hourly)
	require.NoError(t, err)
	_, err = limiter.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(defaultLog.lines(withoutRedis), func(l line) bool {
		return l.attrs["limiter"] == "of-the-default-logger"
	}))
}

// silent is for tests that would log much and look at none of it.
var silent = ration.WithLogger(slog.New(slog.DiscardHandler))

// testLog is a slog.Handler that remembers.
type testLog struct {
	mu      sync.Mutex
	level   slog.Level
	records []slog.Record
}

// newLog is a log of what is worth at least Info.
func newLog() (*testLog, *slog.Logger) {
	l := &testLog{}
	return l, slog.New(l)
}

func (l *testLog) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level }
func (l *testLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *testLog) WithGroup(string) slog.Handler                    { return l }

func (l *testLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	return nil
}

// line is a line that was logged.
type line struct {
	at    time.Time
	level slog.Level
	attrs map[string]any
}

// lines are those of a message.
func (l *testLog) lines(message string) (found []line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.Message == message {
			one := line{r.Time, r.Level, make(map[string]any)}
			r.Attrs(func(a slog.Attr) bool {
				one.attrs[a.Key] = a.Value.Any()
				return true
			})
			found = append(found, one)
		}
	}
	return found
}

const (
	withoutRedis  = "ration: decided without redis"
	notConfigured = "ration: decided without redis, which refuses the call: password, permission or key"
	noAnswer      = "ration: redis does not answer, and is not asked for a while"
	answersAgain  = "ration: redis answers again"
	decidesAgain  = "ration: decided by redis again"
)

// B71: what is let through without Redis leaves a trace, each in its Decision and in a number, and some in the log.
func TestTraceOfB71(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, logger := newLog()
		o := newOutage(t, hourly, 1, ration.OnFailure(ration.FailOpen()), ration.WithLogger(logger))
		o.Refuse()
		for range 10 {
			d := o.allow(t, 0, "key")
			require.True(t, d.Allowed)
			require.Equal(t, ration.SourceFailOpen, d.Source)
			require.ErrorIs(t, d.Cause, ration.ErrUnavailable)
			require.Zero(t, d.Remaining)
		}
		require.EqualValues(t, 10, o.clients[0].Stats().Decisions[ration.SourceFailOpen])
		lines := log.lines(withoutRedis)
		require.Len(t, lines, 5)
		require.Equal(t, slog.LevelWarn, lines[0].level)
		require.Equal(t, map[string]any{
			"limiter": "search", "plan": hourly.String(), "cost": int64(1), "allowed": true, "source": "fail-open",
			"cause": "redis unavailable: dial: connection refused",
		}, lines[0].attrs)
		time.Sleep(21 * time.Second)
		more := log.lines(withoutRedis + ", more")
		require.Len(t, more, 1)
		require.Equal(t, map[string]any{"limiter": "search", "not_shown": int64(5)}, more[0].attrs)

		opened := log.lines(noAnswer)
		require.Len(t, opened, 1)
		require.Equal(t, slog.LevelWarn, opened[0].level)
		require.Equal(t, map[string]any{"node": "127.0.0.1:1", "cause": "redis unavailable: dial: connection refused"}, opened[0].attrs)
		o.Return()
		time.Sleep(time.Second)
		o.allow(t, 0, "key")
		closed := log.lines(answersAgain)
		require.Len(t, closed, 1)
		require.Equal(t, slog.LevelInfo, closed[0].level)
		require.Equal(t, "127.0.0.1:1", closed[0].attrs["node"])
		for range 3 {
			o.allow(t, 0, "key")
			time.Sleep(time.Second)
		}
		again := log.lines(decidesAgain)
		require.Len(t, again, 1)
		require.Equal(t, slog.LevelInfo, again[0].level)
		require.Equal(t, map[string]any{"limiter": "search"}, again[0].attrs)

		// What the end of an outage leaves untold, the line about it tells.
		o.Fault()
		for range 10 {
			o.allow(t, 0, "key")
		}
		o.Return()
		for range 3 {
			o.allow(t, 0, "key")
			time.Sleep(time.Second)
		}
		again = log.lines(decidesAgain)
		require.Len(t, again, 2)
		shown := len(log.lines(withoutRedis)) - 5
		require.Equal(t, map[string]any{"limiter": "search", "not_shown": int64(10 - shown)}, again[1].attrs)
		time.Sleep(time.Minute)
		require.Len(t, log.lines(withoutRedis+", more"), 1)
	})
}

// B57: a fault of configuration is told of as what it is, whatever the policy lets through.
// That Redis decides again is logged, once it does, also where nearly all is granted by leases, which may be from before the outage.
func TestLeasesAndTheEndOfAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &testLog{}
		plan := ration.FixedWindow{Limit: 1_000_000, Window: time.Hour}
		o := newOutage(t, plan, 1, ration.WithLogger(slog.New(log)), ration.WithPrefetch(ration.Prefetch{Max: 50, TTL: time.Minute}))
		ask := func(span time.Duration) {
			for begin := time.Now(); time.Since(begin) < span; time.Sleep(10 * time.Millisecond) {
				o.allow(t, 0, "key")
			}
		}
		ask(5 * time.Second)
		o.Hang()
		ask(3 * time.Second)
		require.NotEmpty(t, log.lines(withoutRedis))
		o.allow(t, 0, "key")
		require.Empty(t, log.lines(decidesAgain))
		o.Return()
		ask(5 * time.Second)
		require.Len(t, log.lines(decidesAgain), 1)
	})
}

func TestConfigurationFaultIsLoggedOfB57(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, logger := newLog()
		o := newOutage(t, hourly, 1, ration.OnFailure(ration.FailOpen()), ration.WithLogger(logger))
		o.FaultOf("CROSSSLOT Keys in request don't hash to the same slot")
		for range 3 {
			d := o.allow(t, 0, "key")
			require.True(t, d.Allowed)
			require.ErrorIs(t, d.Cause, ration.ErrConfiguration)
		}
		require.EqualValues(t, 3, o.clients[0].Stats().ConfigurationFaults)
		require.Empty(t, log.lines(withoutRedis))
		lines := log.lines(notConfigured)
		require.Len(t, lines, 3)
		require.Equal(t, slog.LevelError, lines[0].level)
		require.Contains(t, lines[0].attrs["cause"], "CROSSSLOT")
		require.Empty(t, log.lines(noAnswer), "it answers")

		o.Fault()
		o.allow(t, 0, "key")
		require.EqualValues(t, 3, o.clients[0].Stats().ConfigurationFaults)
		require.EqualValues(t, 4, o.clients[0].Stats().Faults)
		require.Len(t, log.lines(withoutRedis), 1)
	})
}

// A fleet that cannot be counted is told of once a minute.
func TestUncountedFleetIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, logger := newLog()
		o := newOutage(t, hourly, 1, ration.WithLogger(logger))
		o.FaultOf("NOPERM No permissions to access a key")
		for range 150 {
			o.allow(t, 0, "key")
			time.Sleep(time.Second)
		}
		lines := log.lines("ration: redis refuses to count the fleet, whose size was last known or is that of WithFleetSize")
		require.Len(t, lines, 3)
		require.Equal(t, slog.LevelError, lines[0].level)
		require.Equal(t, "search", lines[0].attrs["limiter"])
		require.EqualValues(t, 1, lines[0].attrs["fleet"])
		require.Contains(t, lines[0].attrs["cause"], "NOPERM")
	})
}

// However many decisions are made without Redis, or denied, five lines are logged and then one in five seconds, and they say how many
// there were.
func TestLinesAreFew(t *testing.T) {
	t.Parallel()
	for message, level := range map[string]slog.Level{withoutRedis: slog.LevelInfo, "ration: denied": slog.LevelDebug} {
		synctest.Test(t, func(t *testing.T) {
			log, logger := newLog()
			log.level = level
			o := newOutage(t, ration.FixedWindow{Limit: 1, Window: 24 * time.Hour}, 1,
				ration.WithLogger(logger), ration.WithObservedKeys(), ration.OnFailure(ration.FailClosed()))
			o.allow(t, 0, "key")
			if message == withoutRedis {
				o.Refuse()
			}
			const decisions = 5000
			begin := time.Now()
			for i := range decisions {
				require.False(t, o.allow(t, 0, "key").Allowed)
				if i < 4000 {
					time.Sleep(3 * time.Millisecond)
				} else {
					time.Sleep(700 * time.Millisecond)
				}
			}
			lasted := time.Since(begin)
			time.Sleep(25 * time.Second)
			told := int64(0)
			perSecond := make(map[int64]int)
			for _, line := range log.lines(message) {
				told++
				perSecond[line.at.Unix()]++
				require.Equal(t, level == slog.LevelDebug, line.level == slog.LevelDebug)
				require.Equal(t, "key", line.attrs["key"])
				require.Equal(t, false, line.attrs["allowed"])
				require.Positive(t, line.attrs["retry_after"])
				if n, found := line.attrs["not_shown"]; found {
					told += n.(int64)
				}
			}
			for _, line := range log.lines(message + ", more") {
				perSecond[line.at.Unix()]++
				told += line.attrs["not_shown"].(int64)
			}
			require.EqualValues(t, decisions, told)
			for _, n := range perSecond {
				require.LessOrEqual(t, n, 5)
			}
			require.LessOrEqual(t, len(log.lines(message)), 5+int(lasted/(5*time.Second)))
			require.LessOrEqual(t, len(log.lines(message+", more")), 1)
		})
	}
}

// Denials are logged for whoever debugs.
func TestDenialsAreNotLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, logger := newLog()
		o := newOutage(t, ration.FixedWindow{Limit: 1, Window: time.Hour}, 1, ration.WithLogger(logger))
		for range 10 {
			o.allow(t, 0, "key")
		}
		require.Empty(t, log.records)
	})
}

type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (panickingHandler) Handle(context.Context, slog.Record) error { panic("in a handler") }
func (h panickingHandler) WithAttrs([]slog.Attr) slog.Handler      { return h }

// A panic of a log handler goes no further.
func TestPanicInALogHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, hourly, 1, ration.WithLogger(slog.New(panickingHandler{})))
		o.Hang()
		for range 10 {
			require.Equal(t, ration.SourceLocal, o.allow(t, 0, "key").Source)
		}
		time.Sleep(2 * time.Second)
	})
}

// The numbers of an outage, and of what follows.
func TestStats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, hourly, 1, silent)
		o.allow(t, 0, "key")
		o.Hang()
		for i := range 20 {
			o.allow(t, 0, []string{"key", "another"}[i%2])
		}
		s := o.clients[0].Stats()
		require.EqualValues(t, 1, s.Decisions[ration.SourceRedis])
		require.EqualValues(t, 20, s.Decisions[ration.SourceLocal])
		require.GreaterOrEqual(t, s.Timeouts, int64(5))
		require.EqualValues(t, 1, s.BreakersOpen)
		require.Equal(t, map[string]int64{"search": 1}, s.FleetSizes)
		require.EqualValues(t, 2, s.LocalKeys)
		require.EqualValues(t, 2, s.OwingKeys)
		require.Zero(t, s.PaidUnits)
		o.Return()
		time.Sleep(5 * time.Second)
		d := o.allow(t, 0, "key")
		require.Equal(t, ration.SourceRedis, d.Source)
		require.NoError(t, o.limiters[0].Refund(t.Context(), d))
		o.Delay(20 * time.Millisecond)
		o.allow(t, 0, "key")
		require.EqualValues(t, 1, o.clients[0].Stats().InFlight)
		require.Greater(t, o.clients[0].Stats().Timeouts, s.Timeouts)
		o.Delay(0)
		time.Sleep(5 * time.Second)
		s = o.clients[0].Stats()
		require.EqualValues(t, 1, s.Refunds)
		require.InDelta(t, 20.5, s.PaidUnits, 0.5, "the last is paid, or settled by the late grant")
		require.Zero(t, s.OwingKeys)
		require.Zero(t, s.BreakersOpen)
		require.Zero(t, s.InFlight)
	})
	var none *ration.Client
	require.Empty(t, none.Stats().Decisions)
}
