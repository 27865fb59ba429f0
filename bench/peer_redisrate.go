package main

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func redisRate() peer {
	return peer{
		name:  baseline,
		about: "github.com/go-redis/redis_rate, a leaky bucket (GCRA)",
		open: func(rdb redis.UniversalClient, q quota) (limiter, error) {
			l := redis_rate.NewLimiter(rdb)
			limit := redis_rate.Limit{Rate: 1, Period: q.refill, Burst: int(q.units)}
			return limiter{allow: func(ctx context.Context, key string) (bool, error) {
				r, err := l.AllowN(ctx, key, limit, 1)
				if err != nil {
					return false, err
				}
				return r.Allowed > 0, nil
			}}, nil
		},
	}
}
