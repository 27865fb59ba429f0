package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"

	"github.com/go-ration/ration"
	"github.com/go-ration/ration/internal/audit"
)

// Tally counts requests.
type Tally struct {
	Offered  int64 // and answered
	Admitted int64 // callers let through
	Denied   int64
	Errors   int64 // no decision

	// What a limiter of the instance's own, which knows nothing of the others, says to the same requests.
	AloneAdmitted, AloneDenied int64
}

// Add adds what another has counted.
func (t *Tally) Add(other Tally) {
	t.Offered += other.Offered
	t.Admitted += other.Admitted
	t.Denied += other.Denied
	t.Errors += other.Errors
	t.AloneAdmitted += other.AloneAdmitted
	t.AloneDenied += other.AloneDenied
}

// instance is one of the fleet.
type instance struct {
	key     string
	timeout time.Duration
	rdb     redis.UniversalClient
	client  *ration.Client
	limiter *ration.Limiter
	alone   localLimiter

	admitted, denied, errors, aloneAdmitted, aloneDenied atomic.Int64

	// These belong to the goroutine that offers, until it has ended.
	admissions []audit.Admission
	untimed    int64                   // admissions, of which the server's time was not learned
	latest     int64                   // the latest reading of the server's clock, microseconds since 1970
	latency    *hdrhistogram.Histogram // of decisions, microseconds
	lastError  error
}

// limiterName is what the fleet's limiter is called in Redis.
const limiterName = "demo"

func newInstance(config Config, key string) (*instance, error) {
	i := &instance{
		key:     key,
		timeout: config.Timeout,
		rdb:     config.NewRedis(),
		alone:   newLocalLimiter(config.Plan),
		latency: hdrhistogram.New(1, max(2*config.Timeout, time.Second).Microseconds(), 2),
	}
	var err error
	if i.client, err = ration.New(i.rdb, ration.WithTimeout(config.Timeout), ration.OnFailure(ration.FailClosed()),
		ration.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		_ = i.rdb.Close()
		return nil, err
	}
	if i.limiter, err = i.client.Limiter(limiterName, config.Plan); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

func (i *instance) close() {
	i.client.Close()
	_ = i.rdb.Close()
}

func (i *instance) tally() Tally {
	t := Tally{
		Admitted:      i.admitted.Load(),
		Denied:        i.denied.Load(),
		Errors:        i.errors.Load(),
		AloneAdmitted: i.aloneAdmitted.Load(),
		AloneDenied:   i.aloneDenied.Load(),
	}
	t.Offered = t.Admitted + t.Denied + t.Errors
	return t
}

// grace is how long after its time an instance that fell behind may still make up for it.
const grace = time.Second

// offer offers requests evenly over a span of time, one after the other: each when it is due, however long those before it
// took. It is due somewhere within its share of the span, so that no instance is always the first to find a new token.
func (i *instance) offer(ctx context.Context, requests int64, span time.Duration) {
	start := time.Now()
	end := start.Add(span + grace)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := range requests {
		part := (float64(n) + rand.Float64()) / float64(requests)
		timer.Reset(time.Until(start.Add(time.Duration(part * float64(span)))))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if time.Now().After(end) {
			return
		}
		i.decide()
	}
}

// decide offers one request, to the shared limiter and to the instance's own.
func (i *instance) decide() {
	if i.alone.allow(time.Now()) {
		i.aloneAdmitted.Add(1)
	} else {
		i.aloneDenied.Add(1)
	}
	before, err := i.serverTime()
	if err != nil {
		i.fail(err)
		return
	}
	begin := time.Now()
	d, err := i.limiter.Allow(context.Background(), i.key)
	took := time.Since(begin)
	if err == nil {
		err = d.Cause
	}
	if err != nil {
		i.fail(err)
		return
	}
	_ = i.latency.RecordValue(took.Microseconds()) // refuses only what is beyond twice the timeout
	after, err := i.serverTime()
	i.latest = max(i.latest, after)
	switch {
	case !d.Allowed:
		i.denied.Add(1)
		return
	case err != nil:
		i.untimed++
	default:
		i.admissions = append(i.admissions, audit.Admission{Before: before, After: after, Units: 1})
	}
	i.admitted.Add(1)
}

func (i *instance) fail(err error) {
	i.errors.Add(1)
	i.lastError = err
}

// serverTime is the time of the very server that holds the key, in microseconds since 1970.
func (i *instance) serverTime() (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), i.timeout)
	defer cancel()
	var server redis.Cmdable = i.rdb
	if cluster, ok := i.rdb.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, i.key)
		if err != nil {
			return 0, err
		}
		server = master
	}
	t, err := server.Time(ctx).Result()
	if err != nil {
		return 0, fmt.Errorf("read the server's time: %w", err)
	}
	return t.UnixMicro(), nil
}

// forget deletes the key.
func (i *instance) forget() error {
	return i.limiter.Reset(context.Background(), i.key)
}
