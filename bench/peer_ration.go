package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration"
)

func tokenBucket() peer {
	return peer{
		name:  "tokenbucket",
		about: "ration with the plan TokenBucket",
		open: func(rdb *redis.Client, q quota) (limiter, error) {
			return openRation(rdb, ration.TokenBucket{Rate: ration.Every(q.refill), Burst: q.units})
		},
	}
}

func fixedWindow() peer {
	return peer{
		name:  "fixedwindow",
		about: "ration with the plan FixedWindow",
		open: func(rdb *redis.Client, q quota) (limiter, error) {
			return openRation(rdb, ration.FixedWindow{Limit: q.units, Window: q.window})
		},
	}
}

// openRation makes a limiter of ours as it is by default, but for a timeout that a busy machine keeps too: a measurement
// with an error in it is none.
func openRation(rdb *redis.Client, plan ration.Plan) (limiter, error) {
	client, err := ration.New(rdb, ration.WithTimeout(time.Second))
	if err != nil {
		return limiter{}, err
	}
	l, err := client.Limiter("bench", plan)
	if err != nil {
		client.Close()
		return limiter{}, err
	}
	return limiter{
		allow: func(ctx context.Context, key string) (bool, error) {
			d, err := l.Allow(ctx, key)
			return d.Allowed, err
		},
		close: client.Close,
	}, nil
}
