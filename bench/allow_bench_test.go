package main

import (
	"os"
	"strconv"
	"testing"
)

// Each of these benchmarks measures one peer by itself; only the program measures them in turn, and so can compare them on a
// machine that does other things too.

func BenchmarkAllow(b *testing.B)     { benchmarkWork(b, hotAllowed) }
func BenchmarkDeny(b *testing.B)      { benchmarkWork(b, hotDenied) }
func BenchmarkAllowMany(b *testing.B) { benchmarkWork(b, manyAllowed) }

func benchmarkWork(b *testing.B, w work) {
	b.Helper()
	t, err := openTarget(b.Context(), os.Getenv("RATION_REDIS"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(t.stop)
	bench := newBenchmark(t, standard(), b.Output())
	b.Cleanup(func() {
		if err := bench.cleanUp(); err != nil {
			b.Error(err)
		}
	})
	for _, p := range bench.peers {
		b.Run(p.name, func(b *testing.B) {
			l, err := p.opened(bench.options, w.quota)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(l.close)
			keys := bench.keys.take(w.keys(bench.settings))
			if err := askEach(b.Context(), l, keys); err != nil {
				b.Fatal(err)
			}
			for _, callers := range bench.callers {
				b.Run(strconv.Itoa(callers), func(b *testing.B) {
					b.ReportAllocs()
					if _, err := askTimes(b.Context(), l, keys, callers, b.N); err != nil {
						b.Fatal(err)
					}
				})
			}
		})
	}
}
