package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// rawOf is a peer of ours without our Go code: its very script, called through go-redis as one would by hand, with arguments
// made beforehand. It waits as long as the redis client lets it, so what it is faster by is the price of a timeout that
// holds. It counts on the same stored keys.
func rawOf(p peer) peer {
	return peer{
		name:  "raw-" + p.name,
		about: "the script of " + p.name + ", called through go-redis by hand: EvalSha, no timeout",
		open: func(rdb redis.UniversalClient, q quota) (limiter, error) {
			call, err := recordForHand(rdb, p, q)
			if err != nil {
				return limiter{}, err
			}
			return limiter{allow: func(ctx context.Context, key string) (bool, error) {
				reply, err := rdb.EvalSha(ctx, call.digest, []string{call.stored(key)}, call.args...).Result()
				if err != nil {
					return false, err
				}
				return granted(reply)
			}}, nil
		},
	}
}

// recordForHand notes the script call of a peer, and leaves nothing behind.
func recordForHand(rdb redis.UniversalClient, p peer, q quota) (scriptCall, error) {
	const key = "a-key-for-the-record"
	single, ok := rdb.(*redis.Client)
	if !ok {
		return scriptCall{}, fmt.Errorf("%s cannot be called by hand through a %T", p.name, rdb)
	}
	o := *single.Options()
	o.PushNotificationProcessor = nil // the client's own
	call, err := recordCall(context.Background(), p, &o, q, key)
	if err != nil {
		return scriptCall{}, err
	}
	return call, rdb.Del(context.Background(), call.stored(key)).Err()
}

// granted reads the reply of a peer's script: a single integer is less than 0 where the request was denied, and the first
// of several is how many requests were granted.
func granted(reply any) (bool, error) {
	switch r := reply.(type) {
	case int64:
		return r >= 0, nil
	case []any:
		if len(r) > 0 {
			if n, ok := r[0].(int64); ok {
				return n > 0, nil
			}
		}
	}
	return false, fmt.Errorf("a script replied %v, which is no decision", reply)
}
