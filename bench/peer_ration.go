package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration"
)

// ours are the peers of ration, one for each plan.
func ours() []peer {
	return []peer{gcra(), tokenBucket(), fixedWindow(), slidingWindow(), slidingLog()}
}

func gcra() peer {
	return ofRation("gcra", "ration with the plan GCRA", gcraPlan, allow)
}

// asUsed are peers of ration as services use it: they remember denials, unless it is said otherwise. These go by the clock of this
// process, too.
func asUsed() []peer {
	remembering := ration.WithDenyCache(time.Second)
	return []peer{
		ofRation(byDefault, "ration with the plan GCRA and its default options", gcraPlan, allow, remembering),
		ofRation(oneKey, "the same, with one key in each script call, as on a cluster", gcraPlan, allow, remembering, ration.WithKeysPerCall(1)),
		ofRation(everyDenial, "the same, with every denial by Redis", gcraPlan, allow),
		ofRation(leased, fmt.Sprintf("the same, with up to %d units taken ahead", leaseSize), gcraPlan, allow, remembering,
			ration.WithPrefetch(ration.Prefetch{Max: leaseSize, TTL: time.Second})),
	}
}

const (
	byDefault   = "gcra"
	oneKey      = "gcra, 1 key a call"
	everyDenial = "gcra, every denial by Redis"
	leased      = "gcra, leases of 50"
	leaseSize   = 50
)

var allow = (*ration.Limiter).Allow

// aCount is how many requests gcraForCount asks for at once.
const aCount = 16

// gcraForCount is GCRA by the script that decides several requests of one unit in one call.
func gcraForCount() peer {
	about := fmt.Sprintf("ration with the plan GCRA, %d requests in one call", aCount)
	return ofRation("gcra for a count", about, gcraPlan,
		func(l *ration.Limiter, ctx context.Context, key string) (ration.Decision, error) {
			return l.AllowUpTo(ctx, key, aCount)
		})
}

func gcraPlan(q quota) ration.Plan {
	return ration.GCRA{Rate: ration.Every(q.refill), Burst: q.units}
}

func tokenBucket() peer {
	return ofRation("tokenbucket", "ration with the plan TokenBucket, every denial by Redis", tokenBucketPlan, allow)
}

func tokenBucketPlan(q quota) ration.Plan {
	return ration.TokenBucket{Rate: ration.Every(q.refill), Burst: q.units}
}

func fixedWindow() peer {
	return ofRation("fixedwindow", "ration with the plan FixedWindow, every denial by Redis", fixedWindowPlan, allow)
}

func fixedWindowPlan(q quota) ration.Plan {
	return ration.FixedWindow{Limit: q.units, Window: q.window}
}

func slidingWindow() peer {
	return ofRation("slidingwindow", "ration with the plan SlidingWindow, every denial by Redis", slidingWindowPlan, allow)
}

func slidingWindowPlan(q quota) ration.Plan {
	return ration.SlidingWindow{Limit: q.units, Window: q.window}
}

// plansTogether is how many plans a MultiPlan has here.
const plansTogether = 4

// together is a MultiPlan of some plans of one kind.
func together(name string, plan func(quota) ration.Plan) peer {
	about := fmt.Sprintf("ration with a MultiPlan of %d such plans", plansTogether)
	return ofRation(fmt.Sprintf("%d %s together", plansTogether, name), about, func(q quota) ration.Plan {
		var all ration.MultiPlan
		for i := range plansTogether {
			all = append(all, ration.NamedPlan{Name: strconv.Itoa(i), Plan: plan(q)})
		}
		return all
	}, allow)
}

// mostLogged is the greatest limit of a SlidingLog.
const mostLogged = 100_000

func slidingLog() peer {
	return ofRation("slidinglog", "ration with the plan SlidingLog, every denial by Redis", func(q quota) ration.Plan {
		if q.units > mostLogged {
			// So many in so short a window that no key runs out either.
			q.units, q.window = mostLogged, 100*time.Millisecond
		}
		return ration.SlidingLog{Limit: q.units, Window: q.window}
	}, allow)
}

// ofRation is a peer of ours, with limiters as they are by default, but for a timeout that a busy machine keeps too, as a
// measurement with an error in it is none, and for denials, which all are those of Redis, unless the options say otherwise.
func ofRation(
	name, about string,
	plan func(quota) ration.Plan,
	decide func(*ration.Limiter, context.Context, string) (ration.Decision, error),
	options ...ration.ClientOption,
) peer {
	options = append([]ration.ClientOption{ration.WithTimeout(time.Second), ration.WithDenyCache(0)}, options...)
	open := func(rdb redis.UniversalClient, q quota) (limiter, error) {
		client, err := ration.New(rdb, options...)
		if err != nil {
			return limiter{}, err
		}
		l, err := client.Limiter("bench", plan(q))
		if err != nil {
			client.Close()
			return limiter{}, err
		}
		return limiter{
			allow: func(ctx context.Context, key string) (bool, error) {
				d, err := decide(l, ctx, key)
				if err == nil {
					err = d.Cause
				}
				return d.Allowed, err
			},
			close: client.Close,
		}, nil
	}
	return peer{name: name, about: about, open: open}
}
