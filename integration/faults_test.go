package integration

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/go-ration/ration"
)

// fault is something that makes a server answer calls with an error.
type fault struct {
	answer        string // how the error begins
	configuration bool   // whether it is one that no waiting mends
	looks         bool   // whether those calls fail too that write nothing: looks and denials

	// sent and started say how far a script call that fails gets: to the server, and as far as to start. Whether a script that
	// was started has charged is not said here: the test counts.
	sent, started bool

	user, password string // of the client
	login          bool   // whether only those meet it who log in
	impose         func(t *testing.T, s *faultyServer) (lift func())
}

// faultyServer is a server that a test puts into one fault after the other.
type faultyServer struct {
	*server
	admin *redis.Client // whom no fault of permission meets
	keys  []string      // stored by the calls under test
}

func startFaultyServer(t *testing.T, image string) *faultyServer {
	t.Helper()
	s := &faultyServer{server: startServer(t, image, testcontainers.WithCmd("--save", "", "--appendonly", "no",
		"--enable-debug-command", "yes", "--enable-protected-configs", "yes"))}
	require.NoError(t, s.rdb.Do(t.Context(), "acl", "setuser", "admin", "on", ">admin", "allkeys", "allchannels", "+@all").Err())
	s.admin = s.newRedis(t, func(o *redis.Options) { o.Username, o.Password = "admin", "admin" })
	return s
}

// do runs commands, the words of each apart by spaces.
func (s *faultyServer) do(t *testing.T, commands ...string) {
	t.Helper()
	for _, command := range commands {
		var args []any
		for word := range strings.FieldsSeq(command) {
			if word == `""` {
				word = ""
			}
			args = append(args, word)
		}
		require.NoError(t, s.admin.Do(t.Context(), args...).Err(), command)
	}
}

// between is a fault that some commands impose and others lift.
func between(impose, lift []string) func(t *testing.T, s *faultyServer) func() {
	return func(t *testing.T, s *faultyServer) func() {
		t.Helper()
		s.do(t, impose...)
		return func() { s.do(t, lift...) }
	}
}

// faults are those of a single server, in the words of every version.
func faults() map[string]fault {
	return map[string]fault{
		"a replica": {
			answer: "READONLY", sent: true, started: true,
			impose: between([]string{"replicaof 127.0.0.1 1"}, []string{"replicaof no one"}),
		},
		"a replica without its master": {
			answer: "MASTERDOWN", looks: true, sent: true, started: true,
			impose: between(
				[]string{"config set replica-serve-stale-data no", "replicaof 127.0.0.1 1"},
				[]string{"replicaof no one", "config set replica-serve-stale-data yes"}),
		},
		"no memory": {
			answer: "OOM", sent: true, started: true,
			impose: between([]string{"config set maxmemory 1"}, []string{"config set maxmemory 0"}),
		},
		"too few replicas": {
			answer: "NOREPLICAS", sent: true, started: true,
			impose: between([]string{"config set min-replicas-to-write 1"}, []string{"config set min-replicas-to-write 0"}),
		},
		"no place to save to":   {answer: "MISCONF", sent: true, started: true, impose: failToSave},
		"data not yet loaded":   {answer: "LOADING", looks: true, sent: true, impose: reloadSlowly},
		"a script without end":  {answer: "BUSY", looks: true, sent: true, impose: keepBusy},
		"a value of other type": {answer: "WRONGTYPE", configuration: true, looks: true, sent: true, started: true, impose: replaceValues},
		"a forbidden command": {
			answer: "NOPERM", configuration: true, looks: true, sent: true,
			impose: between([]string{"acl setuser default -evalsha -eval"}, []string{"acl setuser default +evalsha +eval"}),
		},
		"forbidden keys": {
			answer: "NOPERM", configuration: true, looks: true, sent: true,
			impose: between([]string{"acl setuser default resetkeys ~other"}, []string{"acl setuser default allkeys"}),
		},
		"no password": {
			answer: "NOAUTH", configuration: true, looks: true, sent: true, login: true,
			impose: between([]string{"config set requirepass secret"}, []string{`config set requirepass ""`}),
		},
		"another password": {
			answer: "WRONGPASS", configuration: true, looks: true, user: "app", password: "secret", login: true,
			impose: between([]string{"acl setuser app resetpass >other"}, []string{"acl setuser app resetpass >secret"}),
		},
	}
}

// failToSave makes a snapshot fail, after which the server takes no more writes until one succeeds.
func failToSave(t *testing.T, s *faultyServer) (lift func()) {
	t.Helper()
	save := func(dir, status string) {
		s.do(t, "config set dir "+dir, "bgsave")
		await(t, "the end of a snapshot", func(ctx context.Context) error {
			info, err := s.admin.Info(ctx, "persistence").Result()
			if err == nil && !strings.Contains(info, "rdb_bgsave_in_progress:0") || !strings.Contains(info, "rdb_last_bgsave_status:"+status) {
				err = errors.New(info)
			}
			return err
		})
	}
	require.NoError(t, s.admin.ConfigSet(t.Context(), "save", "1000000 1").Err())
	save("/proc", "err")
	return func() {
		save("/tmp", "ok")
		s.do(t, `config set save ""`)
	}
}

// reloadSlowly has the server read its data again, slowly.
func reloadSlowly(t *testing.T, s *faultyServer) (lift func()) {
	t.Helper()
	s.do(t, "debug populate 10000 loaded 1000",
		"config set loading-process-events-interval-bytes 1024", "config set key-load-delay 1000")
	loaded := s.during(t, "LOADING", "debug", "reload")
	return func() {
		s.do(t, "config set key-load-delay 0")
		loaded()
	}
}

// keepBusy has the server run a script without end.
func keepBusy(t *testing.T, s *faultyServer) (lift func()) {
	t.Helper()
	s.do(t, "config set busy-reply-threshold 1")
	killed := s.during(t, "BUSY", "eval", "while true do end", "0")
	return func() {
		s.do(t, "script kill")
		killed()
	}
}

// during starts a command, and waits until the server answers all others with an error. The function it returns waits until
// the command has ended and the server answers again.
func (s *faultyServer) during(t *testing.T, answer string, command ...any) (ended func()) {
	t.Helper()
	rdb := s.newRedis(t, func(o *redis.Options) {
		o.Username, o.Password, o.ReadTimeout, o.MaxRetries = "admin", "admin", -1, -1
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		rdb.Do(context.Background(), command...)
	}()
	await(t, answer, func(ctx context.Context) error {
		if err := s.admin.Ping(ctx).Err(); !redis.HasErrorPrefix(err, answer) {
			return fmt.Errorf("the answer is still %w", err)
		}
		return nil
	})
	return func() {
		<-done
		await(t, "the server to answer", func(ctx context.Context) error { return s.admin.Ping(ctx).Err() })
	}
}

// replaceValues puts something else in the place of what is stored.
func replaceValues(t *testing.T, s *faultyServer) (lift func()) {
	t.Helper()
	for _, key := range s.keys {
		require.NoError(t, s.admin.Rename(t.Context(), key, "kept:"+key).Err())
		require.NoError(t, s.admin.LPush(t.Context(), key, "something else").Err())
	}
	return func() {
		for _, key := range s.keys {
			require.NoError(t, s.admin.Rename(t.Context(), "kept:"+key, key).Err())
		}
	}
}

// logOut closes the connections of redis clients, and waits until these know: until a new one meets the fault.
func (s *faultyServer) logOut(t *testing.T, f fault, clients map[string]redis.UniversalClient) {
	t.Helper()
	s.do(t, "client kill type normal skipme yes")
	for name, rdb := range clients {
		await(t, name+" to log in", func(ctx context.Context) error {
			if err := rdb.Ping(ctx).Err(); !redis.HasErrorPrefix(err, f.answer) {
				return fmt.Errorf("the answer is %w", err)
			}
			return nil
		})
	}
}

// faultyClients are the redis clients whose conduct in a fault may differ, on one server.
func faultyClients(t *testing.T, s *faultyServer, f fault) map[string]redis.UniversalClient {
	t.Helper()
	clients := map[string]redis.UniversalClient{
		"client": redis.NewClient(&redis.Options{Addr: s.addr, Username: f.user, Password: f.password}),
		"ring": redis.NewRing(&redis.RingOptions{
			Addrs: map[string]string{"shard": s.addr}, Username: f.user, Password: f.password,
			// A ring whose shards do not answer says only that they are down.
			HeartbeatFrequency: time.Hour,
		}),
		// Whoever knows the slots by himself may call a cluster what is none.
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{
			Username: f.user, Password: f.password,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{Start: 0, End: clusterSlots - 1, Nodes: []redis.ClusterNode{{Addr: s.addr}}}}, nil
			},
		}),
	}
	for _, rdb := range clients {
		t.Cleanup(func() { _ = rdb.Close() })
	}
	return clients
}

// patientPlans count five units that do not come back while a test runs.
var patientPlans = []ration.Plan{
	ration.FixedWindow{Limit: 5, Window: time.Hour},
	ration.SlidingWindow{Limit: 5, Window: 100 * 365 * 24 * time.Hour}, // in which we are till 2069
	ration.SlidingLog{Limit: 5, Window: time.Hour},
	ration.TokenBucket{Rate: ration.PerDay(1), Burst: 5},
	ration.GCRA{Rate: ration.PerDay(1), Burst: 5},
}

// What a server in a fault answers is an error that says which, charges nothing, and is not tried again; when the fault is
// over, the same client decides as before.
func TestFaults(t *testing.T) {
	t.Parallel()
	onEachImage(t, func(t *testing.T, image string) {
		t.Parallel()
		s := startFaultyServer(t, image)
		t.Run("plans of one name", func(t *testing.T) { testPlansOfOneName(t, s) })
		for name, f := range faults() {
			t.Run(name, func(t *testing.T) { testFault(t, s, f) })
		}
	})
}

// B97: plans of different kinds under one name do not meet in one key.
func testPlansOfOneName(t *testing.T, s *faultyServer) {
	prefix := freshPrefix()
	for _, remaining := range []int64{4, 3} {
		for _, plan := range patientPlans {
			limiter, err := newClient(t, s.rdb, ration.WithPrefix(prefix)).Limiter("limiter", plan)
			require.NoError(t, err)
			requireAllowed(t, limiter, remaining)
		}
	}
}

func testFault(t *testing.T, s *faultyServer, f fault) {
	if f.user != "" {
		s.do(t, "acl setuser "+f.user+" on >"+f.password+" allkeys +@all")
	}
	var limiters []*ration.Limiter
	var wantCalls scriptCalls
	prefix := freshPrefix()
	clients := faultyClients(t, s, f)
	for name, rdb := range clients {
		for i, plan := range patientPlans {
			limiter, err := newClient(t, rdb, ration.WithPrefix(prefix)).Limiter(name+strconv.Itoa(i), plan)
			require.NoError(t, err)
			requireAllowed(t, limiter, 4)
			requireRemaining(t, limiter, 4) // so that the server knows that script too
			_, err = limiter.AllowUpTo(t.Context(), usedUp, 5)
			require.NoError(t, err)
			limiters = append(limiters, limiter)
			wantCalls = wantCalls.plus(f.calls(name))
		}
	}
	var err error
	s.keys, err = s.admin.Keys(t.Context(), prefix+":*").Result()
	require.NoError(t, err)
	require.Len(t, s.keys, 2*len(limiters))
	before := countScriptCalls(t, s.admin)

	lift := f.impose(t, s)
	if f.login {
		s.logOut(t, f, clients)
	}
	for _, limiter := range limiters {
		d, err := byRedis(limiter.Allow(t.Context(), "tenant:42"))
		f.require(t, err)
		require.False(t, d.Allowed)
		if !f.looks {
			requireRemaining(t, limiter, 4)
			requireDenied(t, limiter)
			continue
		}
		_, err = byRedis(limiter.Peek(t.Context(), "tenant:42"))
		f.require(t, err)
	}
	lift()

	require.Equal(t, wantCalls, countScriptCalls(t, s.admin).minus(before))
	for _, limiter := range limiters {
		requireRemaining(t, limiter, 4)
		requireAllowed(t, limiter, 3)
		requireDenied(t, limiter)
	}
}

// usedUp is a key of which nothing remains.
const usedUp = "tenant:0"

// requireDenied asks for a unit of the key that is used up, which writes nothing.
func requireDenied(t *testing.T, limiter *ration.Limiter) {
	t.Helper()
	d, err := byRedis(limiter.Allow(t.Context(), usedUp))
	require.NoError(t, err)
	require.False(t, d.Allowed)
}

// require checks the error of a call in the fault.
func (f fault) require(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, ration.ErrUnavailable)
	require.NotErrorIs(t, err, ration.ErrTimeout)
	require.Equal(t, f.configuration, errors.Is(err, ration.ErrConfiguration), "%v", err)
	require.True(t, redis.HasErrorPrefix(err, f.answer), "%v", err)
}

// calls are those that the server counts when a limiter asks for a unit, looks, and is denied another if looks do not fail.
func (f fault) calls(client string) scriptCalls {
	refusals := int64(1)
	if client == "cluster" && f.answer == "READONLY" {
		// It takes that for a sign that it has to look for another node, as often as it may be redirected.
		refusals = 4
	}
	switch {
	case !f.sent:
		return scriptCalls{}
	case f.started && f.looks:
		return scriptCalls{started: 2, failed: 2}
	case f.started:
		return scriptCalls{started: refusals + 2, failed: refusals}
	default:
		return scriptCalls{refused: 2}
	}
}

// A server whose command for scripts has another name is configured wrong.
func TestRenamedCommand(t *testing.T) {
	t.Parallel()
	s := startServer(t, redis8, testcontainers.WithCmd("--save", "", "--rename-command", "EVALSHA", ""))
	for _, plan := range patientPlans {
		_, err := byRedis(newLimiter(t, s.rdb, plan).Allow(t.Context(), "tenant:42"))
		fault{answer: "unknown command", configuration: true}.require(t, err)
	}
}

// requireAllowed takes a unit, after which so many remain.
func requireAllowed(t *testing.T, limiter *ration.Limiter, remaining int64) {
	t.Helper()
	d, err := byRedis(limiter.Allow(t.Context(), "tenant:42"))
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.Equal(t, remaining, d.Remaining)
}

// requireRemaining looks, and finds so many units.
func requireRemaining(t *testing.T, limiter *ration.Limiter, remaining int64) {
	t.Helper()
	d, err := byRedis(limiter.Peek(t.Context(), "tenant:42"))
	require.NoError(t, err)
	require.Equal(t, remaining, d.Remaining)
}

// scriptCalls counts the EVALSHAs that a server started, those of them that ended with an error, and those that it refused
// to start.
type scriptCalls struct{ started, failed, refused int64 }

func (c scriptCalls) plus(o scriptCalls) scriptCalls {
	return scriptCalls{c.started + o.started, c.failed + o.failed, c.refused + o.refused}
}

func (c scriptCalls) minus(o scriptCalls) scriptCalls {
	return c.plus(scriptCalls{-o.started, -o.failed, -o.refused})
}

var scriptCallsPattern = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+),.*rejected_calls=(\d+),failed_calls=(\d+)`)

// countScriptCalls asks a server that has run an EVALSHA before.
func countScriptCalls(t *testing.T, rdb *redis.Client) scriptCalls {
	t.Helper()
	stats, err := rdb.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	match := scriptCallsPattern.FindStringSubmatch(stats)
	require.NotNil(t, match, "%s", stats)
	var n [3]int64
	for i := range n {
		n[i], err = strconv.ParseInt(match[i+1], 10, 64)
		require.NoError(t, err)
	}
	return scriptCalls{started: n[0], failed: n[2], refused: n[1]}
}
