package integration

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

// operation is what a caller asked for, of one key.
type operation struct {
	key  string
	kind string // take, up-to, refund
	cost int64
}

// outcome is what the caller was told.
type outcome struct {
	unknown            bool // it may have been charged
	granted, remaining int64
}

// countOf is a window as one counter after another request would show it: what was used of a limit.
func countOf(limit int64) porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := make(map[string][]porcupine.Operation)
			for _, o := range history {
				key := o.Input.(operation).key
				byKey[key] = append(byKey[key], o)
			}
			var all [][]porcupine.Operation
			for _, one := range byKey {
				all = append(all, one)
			}
			return all
		},
		Init: func() []any { return []any{int64(0)} },
		Step: func(state, input, output any) []any {
			used, asked, said := state.(int64), input.(operation), output.(outcome)
			granted := int64(0)
			switch {
			case asked.kind == "refund":
				granted = -asked.cost
			case asked.kind == "up-to":
				granted = min(asked.cost, limit-used)
			case used+asked.cost <= limit:
				granted = asked.cost
			}
			switch after := used + granted; {
			case said.unknown:
				return []any{used, after}
			case asked.kind == "refund", said.granted == granted && said.remaining == limit-after:
				return []any{after}
			default:
				return nil
			}
		},
		Equal: func(a, b any) bool { return a == b },
	}).ToModel()
}

// What many callers are told, whose calls share flushes and script calls, is what they would be told one after the other, in some order
// in which no call comes before one that had ended before it began; also where connections are cut, and what became of a call is not known,
// which is so of one in a hundred at most.
func TestLinearizability(t *testing.T) {
	t.Parallel()
	const callers, each, keys, limit, cuts = 64, 300, 8, 2500, 2
	s := startServer(t, redis8)
	d := startDoor(t, s.addr)
	rdb := redis.NewClient(&redis.Options{Addr: d.addr})
	t.Cleanup(func() { _ = rdb.Close() })
	limiter, err := newClient(t, rdb, ration.OnFailure(ration.FailOpen()), withoutBreaker()).
		Limiter("limiter", ration.FixedWindow{Limit: limit, Window: time.Hour})
	require.NoError(t, err)
	_, err = byRedis(limiter.Allow(t.Context(), "warm")) // so that the server knows the script, and counts its calls
	require.NoError(t, err)
	before := countScriptCalls(t, s.rdb)
	begin := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	unknown := 0
	note := func(caller int, asked operation, call int64, said outcome) {
		ended := time.Since(begin).Nanoseconds()
		if said.unknown {
			ended = math.MaxInt64
		}
		mu.Lock()
		defer mu.Unlock()
		if said.unknown {
			unknown++
		}
		history = append(history, porcupine.Operation{ClientId: caller, Input: asked, Call: call, Output: said, Return: ended})
		if n := len(history); n%(callers*each/(cuts+1)) == 0 && n < callers*each {
			d.hangUp()
		}
	}
	var all sync.WaitGroup
	for caller := range callers {
		random := rand.New(rand.NewPCG(rand.Uint64(), 0))
		all.Go(func() {
			for range each {
				asked := operation{key: fmt.Sprintf("tenant:%d", random.IntN(keys)), kind: "take", cost: 1}
				switch random.IntN(10) {
				case 0:
					asked.cost = random.Int64N(4)
				case 1:
					asked.kind, asked.cost = "up-to", 5
				}
				call := time.Since(begin).Nanoseconds()
				var got ration.Decision
				var err error
				if asked.kind == "up-to" {
					got, err = limiter.AllowUpTo(t.Context(), asked.key, asked.cost)
				} else {
					got, err = limiter.AllowN(t.Context(), asked.key, asked.cost)
				}
				if err != nil {
					t.Error(err)
					return
				}
				note(caller, asked, call, outcome{got.Cause != nil, got.Granted, got.Remaining})
				if got.Cause == nil && got.Granted > 0 && random.IntN(10) == 0 {
					call := time.Since(begin).Nanoseconds()
					err := limiter.Refund(t.Context(), got)
					note(caller, operation{asked.key, "refund", got.Granted}, call, outcome{unknown: err != nil})
				}
			}
		})
	}
	all.Wait()
	calls := countScriptCalls(t, s.rdb).minus(before)
	t.Logf("%d operations by %d script calls, the end of %d not known", len(history), calls.started, unknown)
	require.Less(t, calls.started, int64(len(history)*9/10), "script calls are to be shared")
	require.Positive(t, unknown)
	require.LessOrEqual(t, unknown*100, len(history))
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(countOf(limit), history, 2*time.Minute))
}
