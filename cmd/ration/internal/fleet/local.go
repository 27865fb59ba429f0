package fleet

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/go-ration/ration"
)

// RateOf is the rate of a plan, in units a second.
func RateOf(plan ration.Plan) (float64, error) {
	switch p := plan.(type) {
	case ration.TokenBucket:
		return perSecond(p.Rate.Units, p.Rate.Per), nil
	case ration.GCRA:
		return perSecond(p.Rate.Units, p.Rate.Per), nil
	case ration.FixedWindow:
		return perSecond(p.Limit, p.Window), nil
	case ration.SlidingWindow:
		return perSecond(p.Limit, p.Window), nil
	case ration.SlidingLog:
		return perSecond(p.Limit, p.Window), nil
	case ration.MultiPlan:
		return 0, fmt.Errorf("%v is several plans: a fleet is to share one", plan)
	default:
		return 0, fmt.Errorf("%v has no rate, of which to offer a multiple", plan)
	}
}

func perSecond(units int64, per time.Duration) float64 { return float64(units) / per.Seconds() }

// localLimiter is what a service has without Redis: a limiter in its own memory, with the whole quota.
type localLimiter interface {
	allow(now time.Time) bool
}

// newLocalLimiter makes the local counterpart of a plan that has a rate.
func newLocalLimiter(plan ration.Plan) localLimiter {
	switch p := plan.(type) {
	case ration.FixedWindow:
		return &localWindow{plan: p}
	case ration.SlidingWindow:
		return &localSlidingWindow{plan: p}
	case ration.SlidingLog:
		return &localLog{plan: p}
	case ration.GCRA:
		return newLocalLimiter(ration.TokenBucket(p)) // which admits the same
	}
	p := plan.(ration.TokenBucket)
	return localBucket{rate.NewLimiter(rate.Limit(perSecond(p.Rate.Units, p.Rate.Per)), int(p.Burst))}
}

type localBucket struct{ *rate.Limiter }

func (b localBucket) allow(now time.Time) bool { return b.AllowN(now, 1) }

// localWindow counts in the window that is open.
type localWindow struct {
	plan ration.FixedWindow
	end  time.Time
	used int64
}

func (w *localWindow) allow(now time.Time) bool {
	if !now.Before(w.end) {
		w.used, w.end = 0, now.Add(w.plan.Window)
		if w.plan.Aligned {
			millis := w.plan.Window.Milliseconds()
			w.end = time.UnixMilli((now.UnixMilli()/millis + 1) * millis)
		}
	}
	if w.used >= w.plan.Limit {
		if w.plan.RestartOnDeny {
			w.end = now.Add(w.plan.Window)
		}
		return false
	}
	w.used++
	return true
}

// localSlidingWindow counts in the window of the clock that is open, and in the one before it.
type localSlidingWindow struct {
	plan           ration.SlidingWindow
	open           int64 // the number of the window, counted from 1970
	used, previous int64
}

func (w *localSlidingWindow) allow(now time.Time) bool {
	window, micros := w.plan.Window.Microseconds(), now.UnixMicro()
	switch open := micros / window; open - w.open {
	case 0:
	case 1:
		w.open, w.used, w.previous = open, 0, w.used
	default:
		w.open, w.used, w.previous = open, 0, 0
	}
	covered := float64(window-micros%window) / float64(window) // of the window before, by one that ends now
	if float64(w.previous)*covered+float64(w.used+1) > float64(w.plan.Limit) {
		return false
	}
	w.used++
	return true
}

// localLog keeps each grant until it is a window old.
type localLog struct {
	plan   ration.SlidingLog
	grants []time.Time
}

func (l *localLog) allow(now time.Time) bool {
	for len(l.grants) > 0 && now.Sub(l.grants[0]) >= l.plan.Window {
		l.grants = l.grants[1:]
	}
	if int64(len(l.grants)) >= l.plan.Limit {
		return false
	}
	l.grants = append(l.grants, now)
	return true
}
