package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration"
)

// memberVariable makes a run of the test binary a member of a fleet; it holds a member in JSON.
const memberVariable = "RATION_FLEET_MEMBER"

// member is one process of a fleet that shares the quota of one key. It says that it is ready, waits for its order, offers
// requests as fast as they are decided, and reports every one.
type member struct {
	Addr   string
	Prefix string
	Plan   string // as ration.ParsePlan reads it
	Key    string
	// Prefetch has it take units ahead of need, in a fleet of so many.
	Prefetch  ration.Prefetch
	FleetSize int
	// Lingers has it stay, with what it holds, until it is told to end.
	Lingers bool
}

// order says when a member begins and ends to offer: microseconds since 1970 by the server's clock.
type order struct {
	Start, End int64
}

// offer is a request of one unit, decided between two readings of the server's clock.
type offer struct {
	Before, After int64 // microseconds since 1970
	Allowed       bool
}

func (o offer) took() int64 { return o.After - o.Before }

// runMember is the main function of a member. It answers the exit code.
func runMember(config string) int {
	var m member
	err := json.Unmarshal([]byte(config), &m)
	if err == nil {
		err = m.run(context.Background(), os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "member of the fleet:", err)
		return 1
	}
	return 0
}

func (m *member) run(ctx context.Context, orders io.Reader, reports io.Writer) error {
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr})
	clock := redis.NewClient(&redis.Options{Addr: m.Addr})
	defer func() { _, _ = rdb.Close(), clock.Close() }()

	client, err := ration.New(rdb, ration.WithPrefix(m.Prefix), ration.WithTimeout(time.Second), ration.OnFailure(ration.FailClosed()))
	if err != nil {
		return err
	}
	defer client.Close()
	plan, err := ration.ParsePlan(m.Plan)
	if err != nil {
		return err
	}
	var options []ration.LimiterOption
	if m.Prefetch.Max > 0 {
		options = append(options, ration.WithPrefetch(m.Prefetch), ration.WithFleetSize(m.FleetSize))
	}
	limiter, err := client.Limiter("fleet", plan, options...)
	if err != nil {
		return err
	}

	// Both connections are made before the start.
	if err := errors.Join(client.Ping(ctx), clock.Ping(ctx).Err()); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(reports, "ready"); err != nil {
		return err
	}
	var o order
	if err := json.NewDecoder(orders).Decode(&o); err != nil {
		return err
	}
	offers, err := o.follow(ctx, clock, func() (ration.Decision, error) { return byRedis(limiter.Allow(ctx, m.Key)) })
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(reports)
	err = errors.Join(json.NewEncoder(buffered).Encode(offers), buffered.Flush())
	if err == nil && m.Lingers {
		_, err = io.Copy(io.Discard, orders)
	}
	return err
}

// follow offers from the start to the end. A reading of the clock is the one after an offer, and before the next.
func (o order) follow(ctx context.Context, clock *redis.Client, allow func() (ration.Decision, error)) ([]offer, error) {
	now, err := clock.Time(ctx).Result()
	for ; err == nil && now.UnixMicro() < o.Start; now, err = clock.Time(ctx).Result() {
		// Up to the last millisecond a member leaves the processor to others.
		time.Sleep(time.UnixMicro(o.Start).Sub(now) - time.Millisecond)
	}
	var offers []offer
	for err == nil && now.UnixMicro() < o.End {
		before := now
		d, wrong := allow()
		if wrong != nil {
			return nil, wrong
		}
		now, err = clock.Time(ctx).Result()
		offers = append(offers, offer{before.UnixMicro(), now.UnixMicro(), d.Allowed})
	}
	return offers, err
}
