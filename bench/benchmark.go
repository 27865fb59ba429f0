package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
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
	}
}

// benchmark measures peers on one Redis.
type benchmark struct {
	settings
	peers    []peer
	base     int // the peer in whose multiples the figures are
	options  *redis.Options
	keys     *keySource
	progress io.Writer
	pause    func(context.Context, time.Duration) error
}

func newBenchmark(t *target, s settings, progress io.Writer) *benchmark {
	all := peers()
	return &benchmark{
		settings: s,
		peers:    all,
		base:     slices.IndexFunc(all, func(p peer) bool { return p.name == baseline }),
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

// throughput is decisions a second, a column for each number of callers.
type throughput struct {
	work work
	figures
	leastDenied float64 // the least part of the requests that was denied in one measurement
}

func (b *benchmark) throughput(ctx context.Context, w work) (throughput, error) {
	result := throughput{work: w, leastDenied: 1}
	limiters, closeAll, err := b.open(w.quota)
	if err != nil {
		return result, err
	}
	defer closeAll()
	keys := b.keys.take(w.keys(b.settings))
	if w.many {
		for i, l := range limiters {
			b.tell("%s: store %d keys for %s", w.title, len(keys), b.peers[i].name)
			if err := askEach(ctx, l, keys); err != nil {
				return result, fmt.Errorf("%s: store keys: %w", b.peers[i].name, err)
			}
		}
	}
	for _, callers := range b.callers {
		b.tell("%s: %s", w.title, count(callers, "caller"))
		measured, err := inRounds(b.rounds, len(limiters), func(i int) (float64, error) {
			if !w.many {
				keys = b.keys.take(1)
			}
			runtime.GC() // so that no peer clears up behind the one before it
			t, elapsed, err := askFor(ctx, limiters[i], keys, callers, b.span)
			if err == nil {
				err = w.check(t, elapsed)
			}
			if err != nil {
				return 0, fmt.Errorf("%s, %s, %s: %w", b.peers[i].name, w.title, count(callers, "caller"), err)
			}
			result.leastDenied = min(result.leastDenied, float64(t.denied)/float64(t.total()))
			return float64(t.total()) / elapsed.Seconds(), nil
		})
		if err != nil {
			return result, err
		}
		result.add(count(callers, "caller"), measured, b.base)
	}
	return result, nil
}

// memories measures what the clients allocate for an allowed decision.
func (b *benchmark) memories(ctx context.Context) ([]memory, error) {
	limiters, closeAll, err := b.open(plenty)
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

// open opens a limiter of each peer.
func (b *benchmark) open(q quota) (limiters []limiter, closeAll func(), err error) {
	closeAll = func() {
		for _, l := range limiters {
			l.close()
		}
	}
	for _, p := range b.peers {
		l, err := p.opened(b.options, q)
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
