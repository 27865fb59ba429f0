package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration"
)

// loadVariable makes a run of the test binary a member of a load; it holds a loadMember in JSON.
const loadVariable = "RATION_LOAD_MEMBER"

// loadMember is one process of the load on a cluster: a caller for each job, who asks for one unit again and again from the
// start until the orders end, whatever becomes of a request. Then it reports every attempt.
type loadMember struct {
	Addrs  []string // of the cluster
	Clock  string   // the server whose clock is read: all servers of a container have the same
	Prefix string
	Jobs   []job
}

// job is what one caller of each member asks for.
type job struct {
	Plan string // as newAllower reads it
	Key  string
}

// attempt is a request for one unit between two readings of the server's clock.
type attempt struct {
	Job           int
	Before, After int64 // microseconds since 1970
	Allowed       bool
	Remaining     int64
	Fault         string `json:",omitempty"` // the error, if there was one
	Unavailable   bool   `json:",omitempty"` // it wraps ration.ErrUnavailable
	Configuration bool   `json:",omitempty"` // it wraps ration.ErrConfiguration
}

// pace is how often a caller asks: often enough to meet every stage of what happens to the cluster, and seldom enough for a
// machine of two processors, where the servers need their share.
const pace = 10 * time.Millisecond

// memberTimeout fails no call to a server that answers, on a machine that is no busier than this makes it.
const memberTimeout = time.Second

// newAllower makes what decides a job.
func newAllower(client *ration.Client, name, plan string) (ration.Allower, error) {
	parsed, err := ration.ParsePlan(plan)
	if err != nil {
		return nil, err
	}
	return client.Limiter(name, parsed)
}

// allowerName is the name of a job's limiter.
func allowerName(i int) string { return fmt.Sprint("job-", i) }

// runLoadMember is the main function of a member. It answers the exit code.
func runLoadMember(config string) int {
	var m loadMember
	err := json.Unmarshal([]byte(config), &m)
	if err == nil {
		err = m.run(context.Background(), os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "member of the load:", err)
		return 1
	}
	return 0
}

func (m *loadMember) run(ctx context.Context, orders io.Reader, reports io.Writer) error {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: m.Addrs})
	clock := redis.NewClient(&redis.Options{Addr: m.Clock})
	defer func() { _, _ = rdb.Close(), clock.Close() }()
	client, err := ration.New(rdb, ration.WithPrefix(m.Prefix), ration.WithTimeout(memberTimeout),
		ration.OnFailure(ration.FailClosed()))
	if err != nil {
		return err
	}
	defer client.Close()

	round := &round{advanced: make(chan struct{}, 1)}
	callers := make([]*caller, len(m.Jobs))
	for i, j := range m.Jobs {
		allower, err := newAllower(client, allowerName(i), j.Plan)
		if err != nil {
			return err
		}
		callers[i] = &caller{job: i, key: j.Key, allower: allower, clock: clock, round: round}
	}
	calling, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	for _, c := range callers {
		group.Go(func() { c.call(calling) })
	}
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		round.await(callers)
		if _, err := fmt.Fprintln(reports, roundDone); err != nil {
			return err
		}
	}
	stop()
	group.Wait()

	attempts := []attempt{}
	for _, c := range callers {
		err = errors.Join(err, c.err)
		attempts = append(attempts, c.attempts...)
	}
	buffered := bufio.NewWriter(reports)
	return errors.Join(err, json.NewEncoder(buffered).Encode(attempts), buffered.Flush())
}

// roundDone is what a member says when each of its callers has got a decision on a request that was made after the order.
const roundDone = "round"

// round is the number of rounds that were ordered, and a sign that some caller has come further.
type round struct {
	ordered  atomic.Int64
	advanced chan struct{}
}

// await orders a round and waits until every caller has done it.
func (r *round) await(callers []*caller) {
	number := r.ordered.Add(1)
	for _, c := range callers {
		for c.decided.Load() < number {
			<-r.advanced
		}
	}
}

// caller asks for the units of one job.
type caller struct {
	job     int
	key     string
	allower ration.Allower
	clock   *redis.Client
	round   *round

	decided  atomic.Int64 // the last round in which it asked and got a decision
	attempts []attempt
	err      error // of reading the clock, which ends the caller
}

func (c *caller) call(ctx context.Context) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for ctx.Err() == nil && c.err == nil {
		c.attempt(context.WithoutCancel(ctx))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// attempt asks once. A request under way is never given up: what became of it would not be known.
func (c *caller) attempt(ctx context.Context) {
	number := c.round.ordered.Load()
	before, err := c.clock.Time(ctx).Result()
	d, fault := byRedis(c.allower.Take(ctx, ration.Request{Key: c.key, Cost: 1}))
	after, err2 := c.clock.Time(ctx).Result()
	if c.err = errors.Join(err, err2); c.err != nil {
		return
	}
	a := attempt{Job: c.job, Before: before.UnixMicro(), After: after.UnixMicro(), Allowed: d.Allowed, Remaining: d.Remaining}
	if fault != nil {
		a.Fault = fault.Error()
		a.Unavailable = errors.Is(fault, ration.ErrUnavailable)
		a.Configuration = errors.Is(fault, ration.ErrConfiguration)
	}
	c.attempts = append(c.attempts, a)
	if fault != nil {
		return
	}
	c.decided.Store(number)
	select {
	case c.round.advanced <- struct{}{}:
	default:
	}
}
