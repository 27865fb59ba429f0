package integration

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/audit"
)

// Eight processes offer more than twice the quota of one key for more than three seconds. Counted from outside, by the server's
// clock, they are never admitted beyond the plan, and get at least 99 % of what it allows.
//
// The quotas are small for what a fleet can offer, so that it offers enough on a machine that has other things to do. The
// fleets of several plans run at once, one for each processor; the test as a whole is not parallel, since it wants these for
// itself.
func TestFleetOf8Processes(t *testing.T) {
	s := startServer(t, redis8)
	for _, plan := range []ration.Plan{
		ration.TokenBucket{Rate: ration.PerSecond(100), Burst: 50},
		ration.GCRA{Rate: ration.PerSecond(100), Burst: 50},
		ration.FixedWindow{Limit: 50, Window: fleetGrid},
		ration.FixedWindow{Limit: 50, Window: fleetGrid, Aligned: true},
		ration.SlidingWindow{Limit: 50, Window: fleetGrid},
		ration.SlidingLog{Limit: 50, Window: fleetGrid},
	} {
		t.Run(plan.String(), func(t *testing.T) {
			t.Parallel()
			testFleet(t, s, plan)
		})
	}
}

const (
	fleetSize = 8
	// The fleet starts with a window of the grid, and ends before the last of the windows that begin in its time is over,
	// when that should be used up.
	fleetGrid = 500 * time.Millisecond
	fleetSpan = 3450 * time.Millisecond
)

func testFleet(t *testing.T, s *server, plan ration.Plan) {
	config, err := json.Marshal(member{Addr: s.addr, Prefix: freshPrefix(), Plan: plan.String(), Key: "tenant:42"})
	require.NoError(t, err)
	fleet := make([]*process, fleetSize)
	for i := range fleet {
		fleet[i] = startProcess(t, memberVariable, string(config))
	}
	for _, p := range fleet {
		p.awaitReady(t)
	}
	now, err := s.rdb.Time(t.Context()).Result()
	require.NoError(t, err)
	start := now.Add(200 * time.Millisecond).Truncate(fleetGrid).Add(fleetGrid)
	for _, p := range fleet {
		p.send(t, order{Start: start.UnixMicro(), End: start.Add(fleetSpan).UnixMicro()})
	}
	var offers []offer
	for _, p := range fleet {
		offers = append(offers, p.report(t)...)
	}
	checkFleet(t, plan, offers)
}

// checkFleet holds the offers to the plan, from above and from below.
func checkFleet(t *testing.T, plan ration.Plan, offers []offer) {
	t.Helper()
	var admissions []audit.Admission
	for _, o := range offers {
		if o.Allowed {
			admissions = append(admissions, audit.Admission{Before: o.Before, After: o.After, Units: 1})
		}
	}
	excess, err := audit.Excess(plan, admissions)
	require.NoError(t, err)
	require.Zero(t, excess, "units admitted beyond the plan")

	// From below, the fleet is measured at its first denial and at its last: in these moments nothing was left, so all that
	// the plan allowed had been admitted. At other moments a machine that is busy elsewhere may have kept the fleet from
	// asking for it: a bucket that is full earns nothing, and a window opens when it is asked for.
	first, last := firstAndLastDenial(offers)
	capacity, err := audit.Bound(plan, 0)
	require.NoError(t, err)
	atMost := capacity + allowedWithin(t, plan, fleetSpan.Microseconds())
	between := allowedWithin(t, plan, last.Before-first.After)
	if p, ok := plan.(ration.SlidingWindow); ok {
		between = owedBySlidingWindow(p, offers, first, last)
	}
	var admittedUntil, admittedBetween, admitted int64
	for _, a := range admissions {
		if a.Before <= last.After {
			admitted++
		}
		if a.Before <= first.After {
			admittedUntil++
		}
		if a.After >= first.Before && a.Before <= last.After {
			admittedBetween++
		}
	}
	t.Logf("offered %d to a plan that allows %d; admitted %d of %d to the first denial, %d of %d from there to the last, %d in all",
		len(offers), atMost, admittedUntil, capacity, admittedBetween, between, admitted)
	require.GreaterOrEqual(t, int64(len(offers)), 2*atMost, "too few offers to say anything")
	require.GreaterOrEqual(t, 2*between, atMost, "nothing was denied for most of the time: too few offers")
	require.GreaterOrEqual(t, admittedUntil, capacity)
	require.GreaterOrEqual(t, 100*admittedBetween, 99*between)
	require.GreaterOrEqual(t, 100*admitted, 99*(capacity+between))
}

// owedBySlidingWindow is what a SlidingWindow has to have granted between two denials, in the windows of the grid behind that
// of the first.
//
// Its bound, Limit in each window, is out of reach where every window is used up: to the very end of one, what was granted in
// the one before has a weight, be it next to nothing, so that no more than Limit-1 fit in. And what nobody asks for until the
// end of a window is lost. So the fleet is measured at the last denial in each window, where nothing was left: with e the time
// from the start of the window to that denial, a unit more would have made the estimate greater than Limit,
//
//	previous*(1 - e/Window) + current + 1 > Limit
//
// and so at least Limit - previous*(1 - e/Window), rounded down, were granted in the window by then. To a fleet that asks all
// the time that comes to Limit-1 in each window. Where it is not certain in which of two windows a unit was granted, it is
// taken for one of the earlier when it has a weight, for then less is owed.
func owedBySlidingWindow(p ration.SlidingWindow, offers []offer, first, last offer) int64 {
	window := p.Window.Microseconds()
	granted := make(map[int64]int64) // perhaps, by the index of the window
	denied := make(map[int64]int64)  // the last denial in a window was made then or later
	for _, o := range offers {
		switch from, to := o.Before/window, o.After/window; {
		case o.Allowed:
			for index := from; index <= to; index++ {
				granted[index]++
			}
		case from == to && o.Before <= last.Before:
			denied[from] = max(denied[from], o.Before)
		}
	}
	var owed int64
	for index, at := range denied {
		if index > first.After/window {
			weight := granted[index-1] * (window - at%window)
			owed += max(p.Limit-(weight+window-1)/window, 0)
		}
	}
	return owed
}

// firstAndLastDenial are two denials whose moments are well known: of the first and of the last tenth of a second in which
// there are denials, those that took the shortest time.
func firstAndLastDenial(offers []offer) (first, last offer) {
	const tenth = 100_000
	begin, end := int64(math.MaxInt64), int64(0)
	for _, o := range offers {
		if !o.Allowed {
			begin, end = min(begin, o.After), max(end, o.Before)
		}
	}
	first, last = offer{After: math.MaxInt64}, offer{After: math.MaxInt64}
	for _, o := range offers {
		if !o.Allowed && o.After <= begin+tenth && o.took() < first.took() {
			first = o
		}
		if !o.Allowed && o.Before >= end-tenth && o.took() < last.took() {
			last = o
		}
	}
	return first, last
}

// allowedWithin is what a plan whose capacity is used up allows in the microseconds after that.
func allowedWithin(t *testing.T, plan ration.Plan, micros int64) int64 {
	t.Helper()
	capacity, err := audit.Bound(plan, 0)
	require.NoError(t, err)
	bound, err := audit.Bound(plan, time.Duration(micros)*time.Microsecond)
	require.NoError(t, err)
	return bound - capacity
}

// process is a member of a fleet, seen from its parent.
type process struct {
	command *exec.Cmd
	orders  io.WriteCloser
	reports *bufio.Reader
}

// startProcess runs the test binary again, as what the variable says.
func startProcess(t *testing.T, variable, config string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{command: exec.CommandContext(t.Context(), self)}
	p.command.Env = append(os.Environ(), variable+"="+config)
	p.command.Stderr = os.Stderr
	p.orders, err = p.command.StdinPipe()
	require.NoError(t, err)
	reports, err := p.command.StdoutPipe()
	require.NoError(t, err)
	p.reports = bufio.NewReader(reports)
	require.NoError(t, p.command.Start())
	t.Cleanup(func() { _, _ = p.command.Process.Kill(), p.command.Wait() })
	return p
}

func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	line, err := p.reports.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
}

func (p *process) send(t *testing.T, o order) {
	t.Helper()
	require.NoError(t, json.NewEncoder(p.orders).Encode(o))
}

// report waits until the process has ended, which it must have done well.
func (p *process) report(t *testing.T) []offer {
	t.Helper()
	var offers []offer
	require.NoError(t, json.NewDecoder(p.reports).Decode(&offers))
	require.NoError(t, p.command.Wait())
	return offers
}
