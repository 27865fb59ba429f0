package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// rawOf is a peer of ours without our Go code: its very script, called through go-redis as one would by hand, with arguments
// made beforehand. It waits as long as the redis client lets it, so what it is faster by is the price of a timeout that
// holds. It counts on the same stored keys.
func rawOf(p peer) peer {
	return peer{
		name:  "raw-" + p.name,
		about: "the script of " + p.name + ", called through go-redis by hand: EvalSha, no timeout",
		open: func(rdb *redis.Client, q quota) (limiter, error) {
			const key = "a-key-for-the-record"
			o := *rdb.Options()
			o.PushNotificationProcessor = nil // the client's own
			call, err := recordCall(context.Background(), p, &o, q, key)
			if err != nil {
				return limiter{}, err
			}
			if err := rdb.Del(context.Background(), call.storedKey).Err(); err != nil {
				return limiter{}, err
			}
			head, tail, found := strings.Cut(call.storedKey, key)
			if !found {
				return limiter{}, fmt.Errorf("%s stores %q as %q", p.name, key, call.storedKey)
			}
			return limiter{allow: func(ctx context.Context, key string) (bool, error) {
				reply, err := rdb.EvalSha(ctx, call.digest, []string{head + key + tail}, call.args...).Int64Slice()
				if err != nil {
					return false, err
				}
				return reply[0] > 0, nil
			}}, nil
		},
	}
}
