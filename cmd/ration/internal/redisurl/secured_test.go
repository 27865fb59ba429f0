package redisurl_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration/cmd/ration/internal/redisurl"
)

// All connections are made by the Dialer that a client is given, and only that client's.
func TestNewClientThrough(t *testing.T) {
	t.Parallel()
	plain := miniredis.RunT(t)
	certified := httptest.NewUnstartedServer(http.NotFoundHandler())
	certified.StartTLS() // for its certificate
	t.Cleanup(certified.Close)
	secure := miniredis.NewMiniRedis()
	require.NoError(t, secure.StartTLS(&tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}))
	t.Cleanup(secure.Close)
	for name, url := range map[string]string{
		"single":  "redis://" + plain.Addr(),
		"cluster": "redis://" + plain.Addr() + "?addr=" + plain.Addr(),
		"TLS":     "rediss://" + secure.Addr() + "?skip_verify=true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := redisurl.Open(t.Context(), url)
			require.NoError(t, err)
			var dialled atomic.Int64
			var dialer net.Dialer
			rdb := s.NewClientThrough(func(ctx context.Context, network, address string) (net.Conn, error) {
				dialled.Add(1)
				return dialer.DialContext(ctx, network, address)
			})
			t.Cleanup(func() { _ = rdb.Close() })
			require.NoError(t, rdb.Ping(t.Context()).Err())
			require.Positive(t, dialled.Load())

			before := dialled.Load()
			other := s.NewClient()
			t.Cleanup(func() { _ = other.Close() })
			require.NoError(t, other.Ping(t.Context()).Err())
			require.Equal(t, before, dialled.Load())
		})
	}
}
