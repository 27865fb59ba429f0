// Package redisurl reaches the Redis that a URL names: a single server, one behind Sentinel, or a cluster.
package redisurl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience is how long Open waits for a sign of life.
const patience = 3 * time.Second

// dialOnce keeps a server that refuses connections from being asked for one several times over.
const dialOnce = 1

// Server is a Redis that answered.
type Server struct {
	name      string
	newClient func(Dialer) redis.UniversalClient
	single    *redis.Options // unless the URL names more than one server
}

// Dialer makes a connection to the address of a server.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Open finds out what a URL names, and asks it for a sign of life:
//
//	redis://user:password@host:6379/0       one server, or a cluster if that is what the server says it is of
//	rediss://…   unix:///path               the same, through TLS or a socket
//	redis://host:26379?master_name=main     the master that Sentinel names; more ?addr=host:port for more Sentinels
//	redis://host:6379?addr=host:6380        a cluster, by some of its servers
//
// Further parameters are those of redis.ParseURL, ParseFailoverURL and ParseClusterURL. No error about a URL that can be read
// shows a password.
func Open(ctx context.Context, raw string) (*Server, error) {
	server, err := parse(raw)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rdb := server.newClient(nil)
	defer func() { _ = rdb.Close() }()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return nil, unreachable(server, err)
	}
	if server.single == nil || !isClusterNode(ctx, rdb) {
		return server, nil
	}
	return clusterOf(server.single)
}

// NewClient makes a client. Whoever makes it closes it.
func (s *Server) NewClient() redis.UniversalClient { return s.newClient(nil) }

// NewClientThrough makes a client that has all its connections made by a Dialer, to Sentinels and servers of a cluster too; TLS is
// spoken on top of them. Whoever makes it closes it.
func (s *Server) NewClientThrough(dial Dialer) redis.UniversalClient { return s.newClient(dial) }

// String is the server's name for people, without password.
func (s *Server) String() string { return s.name }

func parse(raw string) (*Server, error) {
	u, err := url.Parse(raw)
	if !strings.Contains(raw, "://") {
		return nil, errors.New("the URL of Redis has no scheme: want redis:// in front of it")
	}
	if err != nil || u.Host == "" && u.Path == "" {
		// What is wrong is not shown: it may be a password.
		return nil, errors.New("the URL of Redis cannot be read: want one such as redis://user:password@host:6379/0, " +
			"where what is no letter or digit in a password is written as in %2F")
	}
	switch query := u.Query(); {
	case query.Has("master_name"):
		return parseSentinel(raw)
	case query.Has("addr"):
		o, err := redis.ParseClusterURL(raw)
		if err != nil {
			return nil, misunderstood(err)
		}
		return clusterServer(o), nil
	}
	o, err := redis.ParseURL(raw)
	if err != nil {
		return nil, misunderstood(err)
	}
	o.ContextTimeoutEnabled, o.DialerRetries = true, dialOnce
	return &Server{
		name: "Redis at " + o.Addr,
		newClient: func(dial Dialer) redis.UniversalClient {
			own := *o
			own.Dialer = secured(dial, o.TLSConfig)
			return redis.NewClient(&own)
		},
		single: o,
	}, nil
}

func parseSentinel(raw string) (*Server, error) {
	o, err := redis.ParseFailoverURL(raw)
	if err != nil {
		return nil, misunderstood(err)
	}
	if o.RouteByLatency || o.RouteRandomly || o.ReplicaOnly {
		return nil, misunderstood(errors.New("route_by_latency, route_randomly and replica_only cannot be: " +
			"a limit is written at every decision, so it asks the master"))
	}
	o.ContextTimeoutEnabled, o.DialerRetries = true, dialOnce
	return &Server{
		name: fmt.Sprintf("Redis master %s of Sentinel at %s", o.MasterName, strings.Join(o.SentinelAddrs, ", ")),
		newClient: func(dial Dialer) redis.UniversalClient {
			own := *o
			own.Dialer = secured(dial, o.TLSConfig)
			return redis.NewFailoverClient(&own)
		},
	}, nil
}

func clusterServer(o *redis.ClusterOptions) *Server {
	o.ContextTimeoutEnabled, o.DialerRetries = true, dialOnce
	return &Server{
		name: "Redis Cluster at " + strings.Join(o.Addrs, ", "),
		newClient: func(dial Dialer) redis.UniversalClient {
			own := *o // which NewClusterClient changes
			own.Dialer = secured(dial, o.TLSConfig)
			return redis.NewClusterClient(&own)
		},
	}
}

// clusterOf is the cluster of a server, reached as that server was.
func clusterOf(o *redis.Options) (*Server, error) {
	if o.Network == "unix" {
		return nil, fmt.Errorf("redis at %s is of a cluster, whose other servers are not reached through a socket: "+
			"name it by redis://host:port", o.Addr)
	}
	return clusterServer(&redis.ClusterOptions{
		Addrs:           []string{o.Addr},
		ClientName:      o.ClientName,
		Protocol:        o.Protocol,
		Username:        o.Username,
		Password:        o.Password,
		TLSConfig:       o.TLSConfig,
		MaxRetries:      o.MaxRetries,
		MinRetryBackoff: o.MinRetryBackoff,
		MaxRetryBackoff: o.MaxRetryBackoff,
		DialTimeout:     o.DialTimeout,
		ReadTimeout:     o.ReadTimeout,
		WriteTimeout:    o.WriteTimeout,
		PoolFIFO:        o.PoolFIFO,
		PoolSize:        o.PoolSize,
		PoolTimeout:     o.PoolTimeout,
		MinIdleConns:    o.MinIdleConns,
		MaxIdleConns:    o.MaxIdleConns,
		MaxActiveConns:  o.MaxActiveConns,
		ConnMaxIdleTime: o.ConnMaxIdleTime,
		ConnMaxLifetime: o.ConnMaxLifetime,
	}), nil
}

// isClusterNode asks a server whether it is one of a cluster. One that does not tell, say because its user may not ask, is
// taken for a single server.
func isClusterNode(ctx context.Context, rdb redis.UniversalClient) bool {
	info, err := rdb.Info(ctx, "cluster").Result()
	return err == nil && strings.Contains(info, "cluster_enabled:1")
}

func misunderstood(err error) error {
	return fmt.Errorf("the URL of Redis: %s", strings.TrimPrefix(err.Error(), "redis: "))
}

func unreachable(s *Server, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("cannot reach %v: no answer within %v", s, patience)
	}
	return fmt.Errorf("cannot reach %v: %w", s, err)
}
