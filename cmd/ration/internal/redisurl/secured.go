package redisurl

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// handshakeTimeout is that of go-redis for making a connection, unless a URL says another.
const handshakeTimeout = 5 * time.Second

// secured speaks TLS on the connections of a Dialer, where there is a configuration of it: a redis client leaves that to its Dialer,
// where it has one.
func secured(dial Dialer, config *tls.Config) Dialer {
	if dial == nil || config == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := config.Clone()
		if own.ServerName == "" {
			own.ServerName, _, _ = net.SplitHostPort(address)
		}
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		conn := tls.Client(raw, own)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		return conn, nil
	}
}
