package ration_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration"
)

// exampleRedis is a Redis for the examples; a service has one of its own.
func exampleRedis() (rdb *redis.Client, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	server.SetTime(time.Date(2030, time.January, 1, 12, 0, 0, 0, time.UTC))
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return rdb, func() {
		_ = rdb.Close()
		server.Close()
	}
}

func Example() {
	rdb, stop := exampleRedis()
	defer stop()
	ctx := context.Background()

	client, err := ration.New(rdb, ration.WithTimeout(time.Second))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	search, err := client.Limiter("search", ration.TokenBucket{Rate: ration.PerSecond(2), Burst: 3})
	if err != nil {
		panic(err)
	}
	for range 4 {
		d, err := search.Allow(ctx, "tenant:42")
		switch {
		case err != nil:
			fmt.Println("no answer:", err)
		case !d.Allowed:
			fmt.Println("denied, retry after", d.RetryAfter)
		default:
			fmt.Println("allowed,", d.Remaining, "left")
		}
	}
	// Output:
	// allowed, 2 left
	// allowed, 1 left
	// allowed, 0 left
	// denied, retry after 500ms
}

func ExampleLimiter_AllowN() {
	rdb, stop := exampleRedis()
	defer stop()
	client, _ := ration.New(rdb, ration.WithTimeout(time.Second))
	defer client.Close()
	upload, _ := client.Limiter("upload", ration.FixedWindow{Limit: 100, Window: time.Hour})

	for _, megabytes := range []int64{70, 50, 30, 200} {
		d, err := upload.AllowN(context.Background(), "tenant:42", megabytes)
		if errors.Is(err, ration.ErrCostExceedsLimit) {
			fmt.Println(megabytes, "will never fit")
			continue
		}
		fmt.Println(megabytes, d.Allowed, d.Remaining)
	}
	// Output:
	// 70 true 30
	// 50 false 30
	// 30 true 0
	// 200 will never fit
}

func ExampleLimiter_AllowUpTo() {
	rdb, stop := exampleRedis()
	defer stop()
	client, _ := ration.New(rdb, ration.WithTimeout(time.Second))
	defer client.Close()
	mail, _ := client.Limiter("mail", ration.FixedWindow{Limit: 100, Window: time.Minute})

	for range 3 {
		d, _ := mail.AllowUpTo(context.Background(), "newsletter", 60)
		fmt.Println("send", d.Granted)
	}
	// Output:
	// send 60
	// send 40
	// send 0
}

func ExampleLimiter_Peek() {
	rdb, stop := exampleRedis()
	defer stop()
	client, _ := ration.New(rdb, ration.WithTimeout(time.Second))
	defer client.Close()
	search, _ := client.Limiter("search", ration.FixedWindow{Limit: 10, Window: time.Minute})

	_, _ = search.AllowN(context.Background(), "tenant:42", 4)
	d, _ := search.Peek(context.Background(), "tenant:42")
	fmt.Println(d.Remaining, "of", d.Limit, "left, all again in", d.ResetAfter)
	// Output: 6 of 10 left, all again in 1m0s
}

// Different customers have different quotas.
func ExampleWithPlanFor() {
	rdb, stop := exampleRedis()
	defer stop()
	client, _ := ration.New(rdb, ration.WithTimeout(time.Second))
	defer client.Close()
	quotas := map[string]ration.Plan{
		"tenant:43": ration.TokenBucket{Rate: ration.PerSecond(500), Burst: 100},
	}
	search, _ := client.Limiter("search", ration.TokenBucket{Rate: ration.PerSecond(100), Burst: 20},
		ration.WithPlanFor(func(key string) (ration.Plan, bool) {
			plan, found := quotas[key]
			return plan, found
		}))

	for _, key := range []string{"tenant:42", "tenant:43"} {
		d, _ := search.Allow(context.Background(), key)
		fmt.Println(key, "has", d.Plan)
	}
	// Output:
	// tenant:42 has token-bucket 100/s burst 20
	// tenant:43 has token-bucket 500/s burst 100
}

func ExampleKey() {
	fmt.Println(ration.Key("tenant", "42"))
	fmt.Println(ration.Key("path", "/a:b"))
	fmt.Println(ration.TaggedKey("acme", "user", "7"))
	// Output:
	// tenant:42
	// path:/a%3Ab
	// {acme}:user:7
}

func ExampleParsePlan() {
	plan, err := ration.ParsePlan("token-bucket 1/2s burst 5")
	fmt.Println(plan, err)

	_, err = ration.ParsePlan("token-bucket 1/2s brust 5")
	var wrong *ration.ParseError
	if errors.As(err, &wrong) {
		fmt.Println(wrong.Pointer())
		fmt.Println(wrong.Reason)
	}
	// Output:
	// token-bucket 1/2s burst 5 <nil>
	// token-bucket 1/2s brust 5
	//                   ^^^^^
	// want burst and a number of units
}

// At most ten units in any minute, to the unit: the wait is until so many are a minute old as the request lacks.
func ExampleSlidingLog() {
	rdb, stop := exampleRedis()
	defer stop()
	client, _ := ration.New(rdb, ration.WithTimeout(time.Second))
	defer client.Close()
	export, _ := client.Limiter("export", ration.SlidingLog{Limit: 10, Window: time.Minute})

	for _, rows := range []int64{6, 3, 2, 1} {
		d, err := export.AllowN(context.Background(), "tenant:42", rows)
		if err != nil {
			panic(err)
		}
		fmt.Println(rows, d.Allowed, d.Remaining, d.RetryAfter)
	}
	// Output:
	// 6 true 4 0s
	// 3 true 1 0s
	// 2 false 1 1m0s
	// 1 true 0 0s
}

func ExampleMultiPlan() {
	rdb, stop := exampleRedis()
	defer stop()
	client, err := ration.New(rdb, ration.WithTimeout(time.Second))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	checkout, err := client.Limiter("checkout", ration.MultiPlan{
		{Name: "second", Plan: ration.GCRA{Rate: ration.PerSecond(10), Burst: 10}},
		{Name: "day", Plan: ration.FixedWindow{Limit: 1000, Window: 24 * time.Hour}},
		{Name: "tenant", Plan: ration.GCRA{Rate: ration.PerSecond(500), Burst: 500}, Scope: ration.PerTag},
	})
	if err != nil {
		panic(err)
	}
	key := ration.TaggedKey("acme", "user", "7")
	for _, n := range []int64{8, 3} {
		d, err := checkout.AllowN(context.Background(), key, n)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d units: allowed %v by %q, retry after %v\n", n, d.Allowed, d.Plan, d.RetryAfter)
		for _, plan := range d.Plans {
			fmt.Printf("  %s: %d of %d left\n", plan.Name, plan.Remaining, plan.Limit)
		}
	}
	// Output:
	// 8 units: allowed true by "second", retry after 0s
	//   second: 2 of 10 left
	//   day: 992 of 1000 left
	//   tenant: 492 of 500 left
	// 3 units: allowed false by "second", retry after 100ms
	//   second: 2 of 10 left
	//   day: 992 of 1000 left
	//   tenant: 492 of 500 left
}

func ExampleLimiter_Refund() {
	rdb, stop := exampleRedis()
	defer stop()
	client, err := ration.New(rdb, ration.WithTimeout(time.Second))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	mails, err := client.Limiter("mails", ration.SlidingLog{Limit: 100, Window: time.Hour})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	d, err := mails.AllowN(ctx, "tenant:42", 30)
	if err != nil || !d.Allowed {
		panic(err)
	}
	fmt.Println(d.Remaining, "left")
	// The mails could not be sent after all.
	if err := mails.Refund(ctx, d); err != nil {
		panic(err)
	}
	d, err = mails.Peek(ctx, "tenant:42")
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Remaining, "left")
	// Output:
	// 70 left
	// 100 left
}

func ExampleChain() {
	rdb, stop := exampleRedis()
	defer stop()
	client, err := ration.New(rdb, ration.WithTimeout(time.Second))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	all, err := client.Limiter("all", ration.GCRA{Rate: ration.PerSecond(5000), Burst: 5000},
		ration.WithKeyFor(func(string) string { return "everyone" }))
	if err != nil {
		panic(err)
	}
	tenant, err := client.Limiter("tenant", ration.TokenBucket{Rate: ration.PerSecond(10), Burst: 2})
	if err != nil {
		panic(err)
	}
	chain, err := ration.Chain(tenant, all)
	if err != nil {
		panic(err)
	}
	for range 3 {
		d, err := chain.Allow(context.Background(), "tenant:42")
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed, d.Plan)
	}
	// Output:
	// true tenant
	// true tenant
	// false tenant
}

// decisionCounter counts decisions, as a metric with these labels would.
type decisionCounter map[string]int

func (c decisionCounter) ObserveDecision(_ context.Context, o ration.ObservedDecision) {
	c[fmt.Sprintf("limiter=%s source=%s allowed=%v", o.Limiter, o.Decision.Source, o.Decision.Allowed)]++
}

func ExampleWithObserver() {
	rdb, stop := exampleRedis()
	defer stop()
	counter := make(decisionCounter)
	client, err := ration.New(rdb, ration.WithTimeout(time.Second), ration.WithObserver(counter))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	search, err := client.Limiter("search", ration.FixedWindow{Limit: 2, Window: time.Minute})
	if err != nil {
		panic(err)
	}
	for range 5 {
		if _, err := search.Allow(context.Background(), "tenant:42"); err != nil {
			panic(err)
		}
	}
	fmt.Println(counter)
	// Output:
	// map[limiter=search source=deny-cache allowed=false:2 limiter=search source=redis allowed=false:1 limiter=search source=redis allowed=true:2]
}
