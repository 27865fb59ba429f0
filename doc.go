// Package ration shares one quota across a fleet of services. Redis or Redis Cluster holds the count, Lua scripts decide
// there atomically, and every call ends within a hard timeout.
//
// A [Plan] says what is allowed: [TokenBucket], [GCRA], [FixedWindow], [SlidingWindow] or [SlidingLog], or a [MultiPlan] of
// several, all or nothing. A [Limiter] is a plan
// bound to a [Client] under a name. A [Decision] is its answer for a key, that is, for whom the quota is charged to:
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", MinIdleConns: 8})
//	client, err := ration.New(rdb)
//	…
//	search, err := client.Limiter("search", ration.TokenBucket{Rate: ration.PerSecond(100), Burst: 20},
//		ration.WithFleetSize(8)) // of how many processes each grants its share while Redis does not answer
//	…
//	d, err := search.Allow(ctx, ration.Key("tenant", tenantID))
//	switch {
//	case err != nil: // ctx ended, or the call was a mistake; never "Redis is down": that is d.Source and d.Cause
//	case !d.Allowed: // too many: come back after d.RetryAfter
//	}
//
// All processes with the same Redis, prefix, limiter name and plan share the quota. Only the server's clock counts: clients
// may disagree about the time as they like.
//
// To test limits without a server and without sleeping, use package rationtest.
package ration
