package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
)

// settings is how the peers are measured.
type settings struct {
	rounds   int
	span     time.Duration // of one measurement
	callers  []int         // how many ask at once, a column for each
	manyKeys int           // how many keys the work with many has
	sample   int           // how many decisions are counted of what each costs
	parts    int           // of a sample, in a round, of which each is measured by itself

	logLengths []int // of the logs of SlidingLog that are measured, a line for each
	storedKeys int   // how many keys are stored to see what one takes

	growth growth
}

// standard is how they are measured unless the arguments say otherwise.
func standard() settings {
	return settings{
		rounds:   5,
		span:     300 * time.Millisecond,
		callers:  []int{1, 16, 64, 256},
		manyKeys: 100_000,
		sample:   20_000,
		parts:    20,

		logLengths: []int{100, 1000, 10_000},
		storedKeys: 25_000,

		growth: growth{
			callers: []int{1, 4, 16, 64, 256, 1024, 4096},
			keys:    []int{1, 1000, 100_000, 1_000_000},
			limits:  []int64{10, 100, 1000, 10_000, 100_000, 1_000_000},
		},
	}
}

// benchmark measures peers on one Redis.
type benchmark struct {
	settings
	target   *target
	peers    []peer
	options  *redis.Options
	keys     *keySource
	progress io.Writer
	pause    func(context.Context, time.Duration) error
}

func newBenchmark(t *target, s settings, progress io.Writer) *benchmark {
	return &benchmark{
		settings: s,
		target:   t,
		peers:    peers(),
		options:  t.options,
		keys:     newKeySource(),
		progress: progress,
		pause:    t.pause,
	}
}

// figures are multiples of the baseline's figures.
type figures struct {
	columns   []string
	multiples [][]float64 // [peer][column]; NaN: not known
	base      []float64   // what the baseline's figures are, medians
}

// add adds a column from what was measured, [peer][round].
func (f *figures) add(column string, measured [][]float64, base int) {
	f.columns = append(f.columns, column)
	if f.multiples == nil {
		f.multiples = make([][]float64, len(measured))
	}
	for peer := range measured {
		f.multiples[peer] = append(f.multiples[peer], multiple(measured[peer], measured[base]))
	}
	f.base = append(f.base, median(measured[base]))
}

// measurement is what came of asking a limiter for a while.
type measurement struct {
	rate  float64 // decisions a second
	cpu   float64 // µs of this process for a decision, the callers' own included
	calls float64 // script calls for a decision; NaN where Redis does not tell
	tally
}

// measure has callers ask a limiter for keys, for the span. Script calls are those of a server; nil: they are not counted.
func (b *benchmark) measure(ctx context.Context, rdb *redis.Client, l limiter, keys []string, callers int) (measurement, time.Duration, error) {
	runtime.GC() // so that no peer clears up behind the one before it
	before, err := callsOf(ctx, rdb)
	if err != nil {
		return measurement{}, 0, err
	}
	cpu := cpuTime()
	t, elapsed, err := askFor(ctx, l, keys, callers, b.span)
	cpu = cpuTime() - cpu
	if err != nil {
		return measurement{}, 0, err
	}
	after, err := callsOf(ctx, rdb)
	n := float64(t.total())
	m := measurement{rate: n / elapsed.Seconds(), cpu: float64(cpu) / float64(time.Microsecond) / n, tally: t, calls: math.NaN()}
	if after.calls > before.calls {
		m.calls = float64(after.calls-before.calls) / n
	}
	return m, elapsed, err
}

// callsOf is what a server has counted of its script calls; nothing without a server.
func callsOf(ctx context.Context, rdb *redis.Client) (callStats, error) {
	if rdb == nil {
		return callStats{}, nil
	}
	return readStats(rdb.Info(ctx, "commandstats"))
}

// contest is a work that peers do in turn, each with so many callers.
type contest struct {
	work    work
	peers   []peer
	callers []int
	open    func(peer, quota) (limiter, error)
	stats   *redis.Client // of the server whose script calls are counted; nil: none
}

// throughput is what came of a contest, a column for each number of callers.
type throughput struct {
	contest
	figures
	rates, cpu, calls [][]float64 // [peer][column] medians of what measurement says
	leastDenied       float64     // the least part of the requests that was denied in one measurement
}

// column adds what was measured with so many callers.
func (t *throughput) column(name string, measured [][]measurement) {
	of := func(figure func(measurement) float64) [][]float64 {
		all := make([][]float64, len(measured))
		for peer := range measured {
			for _, m := range measured[peer] {
				all[peer] = append(all[peer], figure(m))
			}
		}
		return all
	}
	rates := of(func(m measurement) float64 { return m.rate })
	t.add(name, rates, baseOf(t.peers))
	t.rates = addMedians(t.rates, rates)
	t.cpu = addMedians(t.cpu, of(func(m measurement) float64 { return m.cpu }))
	t.calls = addMedians(t.calls, of(func(m measurement) float64 { return m.calls }))
	for peer := range measured {
		for _, m := range measured[peer] {
			t.leastDenied = min(t.leastDenied, float64(m.denied)/float64(m.total()))
		}
	}
}

// addMedians adds a column of the medians of what was measured, [peer][round].
func addMedians(columns, measured [][]float64) [][]float64 {
	if columns == nil {
		columns = make([][]float64, len(measured))
	}
	for peer := range measured {
		columns[peer] = append(columns[peer], median(measured[peer]))
	}
	return columns
}

// here is a contest of all peers on the Redis that is asked, with so many callers as the settings say.
func (b *benchmark) here(w work, rdb *redis.Client) contest {
	return contest{work: w, peers: b.peers, callers: b.callers, open: b.openHere, stats: rdb}
}

func (b *benchmark) openHere(p peer, q quota) (limiter, error) { return p.opened(b.options, q) }

// hold holds a contest.
func (b *benchmark) hold(ctx context.Context, c contest) (throughput, error) {
	result := throughput{contest: c, leastDenied: 1}
	limiters, closeAll, err := openAll(c.peers, c.work.quota, c.open)
	if err != nil {
		return result, err
	}
	defer closeAll()
	keys := b.keys.take(c.work.keys(b.settings))
	if c.work.many {
		if err := b.storeFor(ctx, c, limiters, keys); err != nil {
			return result, err
		}
	}
	for _, callers := range c.callers {
		b.tell("%s: %s", c.work.title, count(callers, "caller"))
		measured, err := inRounds(b.rounds, len(limiters), func(i int) (measurement, error) {
			if !c.work.many {
				keys = b.keys.take(1)
			}
			m, elapsed, err := b.measure(ctx, c.stats, limiters[i], keys, callers)
			if err == nil {
				err = c.work.check(m.tally, elapsed)
			}
			if err != nil {
				return m, fmt.Errorf("%s, %s, %s: %w", c.peers[i].name, c.work.title, count(callers, "caller"), err)
			}
			return m, nil
		})
		if err != nil {
			return result, err
		}
		result.column(count(callers, "caller"), measured)
	}
	return result, nil
}

// storeFor has each limiter of a contest asked once for each key.
func (b *benchmark) storeFor(ctx context.Context, c contest, limiters []limiter, keys []string) error {
	for i, l := range limiters {
		b.tell("%s: store %d keys for %s", c.work.title, len(keys), c.peers[i].name)
		if err := askEach(ctx, l, keys); err != nil {
			return fmt.Errorf("%s: store keys: %w", c.peers[i].name, err)
		}
	}
	return nil
}

// memories measures what the clients allocate for an allowed decision.
func (b *benchmark) memories(ctx context.Context) ([]memory, error) {
	limiters, closeAll, err := openAll(b.peers, plenty, b.openHere)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	b.tell("Allocations")
	result := make([]memory, len(limiters))
	for i, l := range limiters {
		if result[i], err = measureMemory(ctx, l, b.keys.next(), b.sample); err != nil {
			return nil, fmt.Errorf("%s: %w", b.peers[i].name, err)
		}
	}
	return result, nil
}

// openAll opens a limiter of each peer.
func openAll(all []peer, q quota, open func(peer, quota) (limiter, error)) (limiters []limiter, closeAll func(), err error) {
	closeAll = func() {
		for _, l := range limiters {
			l.close()
		}
	}
	for _, p := range all {
		l, err := open(p, q)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		limiters = append(limiters, l)
	}
	return limiters, closeAll, nil
}

// cleanUp deletes what was stored. It also does when the run was interrupted.
func (b *benchmark) cleanUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rdb := redis.NewClient(b.options)
	defer func() { _ = rdb.Close() }()
	return b.keys.deleteAll(ctx, rdb)
}

func (b *benchmark) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, format+"\n", args...)
}
