package fleet

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/go-ration/ration"
)

// rateOf is the rate of a plan, in units a second.
func rateOf(plan ration.Plan) (float64, error) {
	switch p := plan.(type) {
	case ration.TokenBucket:
		return float64(p.Rate.Units) / p.Rate.Per.Seconds(), nil
	case ration.FixedWindow:
		return float64(p.Limit) / p.Window.Seconds(), nil
	default:
		return 0, fmt.Errorf("%v has no rate, of which to offer a multiple", plan)
	}
}

// localLimiter is what a service has without Redis: a limiter in its own memory, with the whole quota.
type localLimiter interface {
	allow(now time.Time) bool
}

// newLocalLimiter makes the local counterpart of a plan that has a rate.
func newLocalLimiter(plan ration.Plan) localLimiter {
	if p, ok := plan.(ration.FixedWindow); ok {
		return &localWindow{plan: p}
	}
	p := plan.(ration.TokenBucket)
	return localBucket{rate.NewLimiter(rate.Limit(float64(p.Rate.Units)/p.Rate.Per.Seconds()), int(p.Burst))}
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
