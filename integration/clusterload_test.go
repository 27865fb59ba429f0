package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/audit"
)

// loadSize is the number of processes of a load, and so of the callers of each job.
const loadSize = 3

// load is several processes that ask for units on a cluster while something happens to it.
type load struct {
	cluster *cluster
	clock   *redis.Client
	prefix  string
	jobs    []job
	members []*process
}

// century is a window that no test sees the end of, nor, on the grid of the clock, its start.
const century = 100 * 365 * 24 * time.Hour

// plansOf are a plan of each kind with so many units, of which none is earned, and no window ends, while a test runs.
func plansOf(limit int64) []ration.Plan {
	return []ration.Plan{
		ration.FixedWindow{Limit: limit, Window: century},
		ration.SlidingWindow{Limit: limit, Window: century},
		ration.SlidingLog{Limit: limit, Window: century},
		ration.TokenBucket{Rate: ration.PerHour(1), Burst: limit},
		ration.GCRA{Rate: ration.PerHour(1), Burst: limit},
	}
}

// plenty is more units than a load asks for: what was charged of them can be told to the unit.
const plenty = 100_000

// scarcePlans are a plan of each kind that a load asks for several times what there is.
func scarcePlans() []ration.Plan {
	const window = 500 * time.Millisecond
	return []ration.Plan{
		ration.FixedWindow{Limit: 10, Window: window},
		ration.SlidingWindow{Limit: 10, Window: window},
		ration.SlidingLog{Limit: 10, Window: window},
		ration.TokenBucket{Rate: ration.PerSecond(20), Burst: 10},
		ration.GCRA{Rate: ration.PerSecond(20), Burst: 10},
	}
}

// together is all the plans as one.
func together(plans []ration.Plan) ration.MultiPlan {
	var all ration.MultiPlan
	for i, plan := range plans {
		all = append(all, ration.NamedPlan{Name: fmt.Sprint("plan-", i), Plan: plan})
	}
	return all
}

// jobsOn are a job for each plan, whose keys are in the slot of a tag.
func jobsOn(tag string, plans ...ration.Plan) []job {
	jobs := make([]job, len(plans))
	for i, plan := range plans {
		jobs[i] = job{Plan: plan.String(), Key: ration.TaggedKey(tag, "tenant", fmt.Sprint(i))}
	}
	return jobs
}

// startLoad starts a load and waits until it runs. It reads the clock of the server at a port, which must stay.
func (c *cluster) startLoad(t *testing.T, clock int, jobs ...job) *load {
	t.Helper()
	l := &load{cluster: c, clock: c.newNode(t, clock), prefix: freshPrefix(), jobs: jobs}
	m := loadMember{Clock: address(clock), Prefix: l.prefix, Jobs: jobs}
	for _, port := range c.ports {
		m.Addrs = append(m.Addrs, address(port))
	}
	config, err := json.Marshal(m)
	require.NoError(t, err)
	for range loadSize {
		l.members = append(l.members, startProcess(t, loadVariable, string(config)))
	}
	l.awaitRounds(t, 1)
	return l
}

// awaitRounds waits so many times, one after the other, until every caller has got a decision on a request that it made after
// that.
func (l *load) awaitRounds(t *testing.T, n int) {
	t.Helper()
	for range n {
		l.awaitRound(t)
	}
}

func (l *load) awaitRound(t *testing.T) {
	t.Helper()
	for _, p := range l.members {
		_, err := fmt.Fprintln(p.orders, roundDone)
		require.NoError(t, err)
	}
	for _, p := range l.members {
		impatience := time.AfterFunc(patience, func() { _ = p.command.Process.Kill() })
		line, err := p.reports.ReadString('\n')
		impatience.Stop()
		require.NoError(t, err, "no decision for some caller within %v", patience)
		require.Equal(t, roundDone+"\n", line)
	}
}

// now is what the servers' clock says, in microseconds since 1970.
func (l *load) now(t *testing.T) int64 {
	t.Helper()
	now, err := l.clock.Time(t.Context()).Result()
	require.NoError(t, err)
	return now.UnixMicro()
}

// stop ends the load and answers all it did, by job, in the order of time.
func (l *load) stop(t *testing.T) [][]attempt {
	t.Helper()
	byJob := make([][]attempt, len(l.jobs))
	for _, p := range l.members {
		require.NoError(t, p.orders.Close())
	}
	for _, p := range l.members {
		var attempts []attempt
		require.NoError(t, json.NewDecoder(bufio.NewReader(p.reports)).Decode(&attempts))
		require.NoError(t, p.command.Wait())
		for _, a := range attempts {
			byJob[a.Job] = append(byJob[a.Job], a)
		}
	}
	for _, attempts := range byJob {
		slices.SortFunc(attempts, func(a, b attempt) int { return int(a.Before - b.Before) })
	}
	return byJob
}

// peek looks at a job's quota by a client that knows nothing of earlier times, and asks a server that is there where the keys
// are.
func (l *load) peek(t *testing.T, i int) ration.Decision {
	t.Helper()
	rdb := l.cluster.newRedis(t, func(o *redis.ClusterOptions) { o.Addrs = []string{l.clock.Options().Addr} })
	client := newClient(t, rdb, ration.WithPrefix(l.prefix))
	plan, err := ration.ParsePlan(l.jobs[i].Plan)
	require.NoError(t, err)
	limiter, err := client.Limiter(allowerName(i), plan)
	require.NoError(t, err)
	d, err := byRedis(limiter.Peek(t.Context(), l.jobs[i].Key))
	require.NoError(t, err)
	return d
}

// requireCharged holds that so much of a job's quota is charged in Redis, of each of its plans.
func (l *load) requireCharged(t *testing.T, i int, units int64) {
	t.Helper()
	d := l.peek(t, i)
	require.Equal(t, units, d.Limit-d.Remaining, "%s: charged in Redis, against granted to callers", l.jobs[i].Plan)
	for _, p := range d.Plans {
		require.Equal(t, units, p.Limit-p.Remaining, "%s: charged in Redis, against granted to callers", p.Plan)
	}
}

// awaitUsedUp waits until nothing is left of the quotas of some jobs.
func (l *load) awaitUsedUp(t *testing.T, jobs []int) {
	t.Helper()
	for _, i := range jobs {
		await(t, "the load to use up "+l.jobs[i].Plan, func(context.Context) error {
			if left := l.peek(t, i).Remaining; left > 0 {
				return fmt.Errorf("%d are left", left)
			}
			return nil
		})
	}
}

// excess is how many units more than the plan of a job allows, or any one of its plans, were certainly granted.
func (l *load) excess(t *testing.T, i int, attempts []attempt) int64 {
	t.Helper()
	var admissions []audit.Admission
	for _, a := range attempts {
		if a.Allowed {
			admissions = append(admissions, audit.Admission{Before: a.Before, After: a.After, Units: 1})
		}
	}
	plan, err := ration.ParsePlan(l.jobs[i].Plan)
	require.NoError(t, err)
	plans, several := plan.(ration.MultiPlan)
	if !several {
		plans = ration.MultiPlan{{Plan: plan}}
	}
	var worst int64
	for _, p := range plans {
		excess, err := audit.Excess(p.Plan, admissions)
		require.NoError(t, err)
		worst = max(worst, excess)
	}
	return worst
}

// tally is what became of attempts.
type tally struct{ granted, denied, failed int64 }

func tallyOf(attempts []attempt) tally {
	var sum tally
	for _, a := range attempts {
		switch {
		case a.Fault != "":
			sum.failed++
		case a.Allowed:
			sum.granted++
		default:
			sum.denied++
		}
	}
	return sum
}

// requireNoFaults holds that every attempt was decided.
func requireNoFaults(t *testing.T, attempts []attempt) {
	t.Helper()
	faults := faultsOf(attempts)
	require.Empty(t, faults, "of %d attempts", len(attempts))
}

// faultsOf counts the errors of attempts by their text.
func faultsOf(attempts []attempt) map[string]int {
	faults := make(map[string]int)
	for _, a := range attempts {
		if a.Fault != "" {
			faults[a.Fault]++
		}
	}
	return faults
}

// checkFaults holds that attempts failed only between two moments, and only for want of a server.
func checkFaults(t *testing.T, attempts []attempt, from, to int64) {
	t.Helper()
	for _, a := range attempts {
		if a.Fault == "" {
			continue
		}
		require.True(t, a.Unavailable && !a.Configuration, a.Fault)
		require.GreaterOrEqual(t, a.After, from, "%s: too early", a.Fault)
		require.LessOrEqual(t, a.Before, to, "%s: too late", a.Fault)
	}
}

// lastFault is when the last attempt was made that failed.
func lastFault(attempts []attempt) int64 {
	var last int64
	for _, a := range attempts {
		if a.Fault != "" {
			last = max(last, a.Before)
		}
	}
	return last
}

// checkExact holds the plans of jobs that have plenty: not one attempt failed, and Redis has charged exactly what was granted.
func (l *load) checkExact(t *testing.T, byJob [][]attempt, jobs []int) {
	t.Helper()
	for _, i := range jobs {
		requireNoFaults(t, byJob[i])
		sum := tallyOf(byJob[i])
		require.Zero(t, sum.denied, l.jobs[i].Plan)
		l.requireCharged(t, i, sum.granted)
	}
}

// checkScarce holds the plans of jobs that are at their limit: not one attempt failed, and not one unit too many was granted.
func (l *load) checkScarce(t *testing.T, byJob [][]attempt, jobs []int) {
	t.Helper()
	for _, i := range jobs {
		requireNoFaults(t, byJob[i])
		sum := tallyOf(byJob[i])
		require.Greater(t, sum.denied, sum.granted, "%s: too few attempts to say anything", l.jobs[i].Plan)
		require.Zero(t, l.excess(t, i, byJob[i]), "%s: units granted beyond the plan", l.jobs[i].Plan)
	}
}

// summary is what a load did, in a line.
func summary(byJob [][]attempt) string {
	all := slices.Concat(byJob...)
	sum := tallyOf(all)
	faults := faultsOf(all)
	text := fmt.Sprintf("%d attempts: %d granted, %d denied, %d failed", len(all), sum.granted, sum.denied, sum.failed)
	for _, fault := range slices.Sorted(maps.Keys(faults)) {
		text += fmt.Sprintf("\n%6d %s", faults[fault], fault)
	}
	return text
}

// span is the numbers from `from` up to, and without, `to`.
func span(from, to int) []int {
	numbers := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		numbers = append(numbers, i)
	}
	return numbers
}
