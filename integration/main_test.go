package integration

import (
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration"
)

const (
	redis7  = "redis:7.0"
	redis8  = "redis:8.0"
	valkey8 = "valkey/valkey:8.1"
)

// images are the servers that every decision must be the same on.
var images = []string{redis7, redis8, valkey8}

// patience is how long a test waits for what is bound to come, on a machine as slow as it may be.
const patience = time.Minute

// A fleet and a load run this binary again, as their members.
func TestMain(m *testing.M) {
	if config, found := os.LookupEnv(memberVariable); found {
		os.Exit(runMember(config))
	}
	if config, found := os.LookupEnv(loadVariable); found {
		os.Exit(runLoadMember(config))
	}
	os.Exit(m.Run())
}

// onEachImage runs a test on every image, one after the other where the test is not parallel.
func onEachImage(t *testing.T, test func(t *testing.T, image string)) {
	t.Helper()
	for _, image := range images {
		t.Run(image, func(t *testing.T) { test(t, image) })
	}
}

var prefixes atomic.Int64

// freshPrefix is a prefix of stored keys that no other test uses.
func freshPrefix() string { return "test-" + strconv.FormatInt(prefixes.Add(1), 10) }

// newClient makes a Client under a fresh prefix, whose timeout fails no test on a slow machine unless an option says so.
func newClient(t *testing.T, rdb redis.UniversalClient, options ...ration.ClientOption) *ration.Client {
	t.Helper()
	defaults := []ration.ClientOption{
		ration.WithPrefix(freshPrefix()), ration.WithTimeout(10 * time.Second), ration.OnFailure(ration.FailClosed()),
		ration.WithDenyCache(0), // for servers whose clocks jump
	}
	client, err := ration.New(rdb, append(defaults, options...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// byRedis is a decision of Redis', or why it did not decide.
func byRedis(d ration.Decision, err error) (ration.Decision, error) {
	if err == nil {
		err = d.Cause
	}
	return d, err
}

// newLimiter makes a limiter on a Client of its own.
func newLimiter(t *testing.T, rdb redis.UniversalClient, plan ration.Plan) *ration.Limiter {
	t.Helper()
	limiter, err := newClient(t, rdb).Limiter("limiter", plan)
	require.NoError(t, err)
	return limiter
}
