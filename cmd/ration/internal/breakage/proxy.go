package breakage

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy stands between redis clients of this process and the servers that they dial, whatever their addresses, and breaks nothing
// but these connections. It is safe for concurrent use.
type Proxy struct {
	latency time.Duration
	server  *toxiproxy.ApiServer // which serves nothing: proxies ask it for their metrics

	mu     sync.Mutex
	state  State
	routes map[string]*toxiproxy.Proxy // by the address that is dialled
}

// NewProxy makes a Proxy that is healthy, and by so much slower when it is slow, in whole milliseconds. Whoever makes it closes it.
func NewProxy(latency time.Duration) *Proxy {
	return &Proxy{
		latency: latency,
		server:  toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		state:   Healthy,
		routes:  make(map[string]*toxiproxy.Proxy),
	}
}

// Dial makes a connection to a server through the proxy: what redis clients take for a Dialer.
func (p *Proxy) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	listen, err := p.route(network, address)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, listen)
}

// route is where to dial for a server.
func (p *Proxy) route(network, address string) (listen string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == Killed {
		return "", &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	if route := p.routes[address]; route != nil {
		return route.Listen, nil
	}
	route := toxiproxy.NewProxy(p.server, address, "127.0.0.1:0", address)
	if err := p.poison(route); err != nil {
		return "", err
	}
	if err := route.Start(); err != nil {
		return "", err
	}
	p.routes[address] = route
	return route.Listen, nil
}

// Set puts all connections, and those to come, into a state.
func (p *Proxy) Set(state State) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.state {
	case Healthy, Killed:
	case Slow:
		for _, route := range p.routes {
			route.Toxics.ResetToxics(context.Background())
		}
	case Stopped:
		// What went into the hole is lost, so no connection is of use any more; and a toxic that is not taken out of a link goes on
		// emptying it until it has ended.
		p.dropLocked()
	}
	p.state = state
	if state == Killed {
		p.dropLocked()
		return nil
	}
	for _, route := range p.routes {
		if err := p.poison(route); err != nil {
			return err
		}
	}
	return nil
}

// dropLocked ends all connections. The next that is dialled gets a new route.
func (p *Proxy) dropLocked() {
	for address, route := range p.routes {
		route.Stop()
		delete(p.routes, address)
	}
}

// poison adds the toxics of the state to a route.
func (p *Proxy) poison(route *toxiproxy.Proxy) error {
	switch p.state {
	case Stopped:
		// A timeout of 0 is none: what comes is thrown away, and the connection stays.
		for _, direction := range []string{"upstream", "downstream"} {
			if err := add(route, toxic{"timeout", direction, map[string]int64{"timeout": 0}}); err != nil {
				return err
			}
		}
	case Slow:
		return add(route, toxic{"latency", "downstream", map[string]int64{"latency": p.latency.Milliseconds()}})
	case Healthy, Killed:
	}
	return nil
}

// toxic is what toxiproxy reads of one.
type toxic struct {
	Type       string           `json:"type"`
	Stream     string           `json:"stream"`
	Attributes map[string]int64 `json:"attributes"`
}

func add(route *toxiproxy.Proxy, t toxic) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = route.Toxics.AddToxicJson(bytes.NewReader(text))
	return err
}

// Close ends all connections, and refuses new ones.
func (p *Proxy) Close() { _ = p.Set(Killed) } // which dropping does not fail
