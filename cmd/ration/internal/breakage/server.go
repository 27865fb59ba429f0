package breakage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNoServer says that there is no redis-server to start.
var ErrNoServer = errors.New("redis-server is not in PATH")

const (
	program  = "redis-server"
	patience = 5 * time.Second      // for a server to answer
	look     = 5 * time.Millisecond // from one look at it to the next
)

// Server is a redis-server of its own: a process that is really stopped, killed and started again, with what it had stored. Where
// it is to be slow, and where it is killed, its proxy is too, through which clients dial it.
type Server struct {
	path      string
	directory string
	address   string
	proxy     *Proxy
	state     State
	process   *exec.Cmd
	exited    chan struct{} // closed when the process has ended
}

// StartServer starts a Server that keeps what it stores in a temporary directory, and waits until it answers. Whoever starts it
// closes it.
func StartServer(ctx context.Context, latency time.Duration) (*Server, error) {
	if err := canSignal(); err != nil {
		return nil, err
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, ErrNoServer
	}
	s := &Server{path: path, proxy: NewProxy(latency), state: Healthy}
	if s.directory, err = os.MkdirTemp("", "ration-drill-"); err != nil {
		return nil, err
	}
	if s.address, err = freeAddress(ctx); err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Address is where it listens.
func (s *Server) Address() string { return s.address }

// Dial makes a connection to the server: what redis clients take for a Dialer.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return s.proxy.Dial(ctx, network, address)
}

// Set puts the server into a state. One that was killed answers again when Set returns.
func (s *Server) Set(ctx context.Context, state State) error {
	if err := s.mend(ctx); err != nil {
		return err
	}
	s.state = state
	switch state {
	case Stopped:
		return stop(s.process.Process)
	case Killed:
		s.kill() // breaks the connections, and only then are new ones refused by the proxy too
		return s.proxy.Set(Killed)
	case Slow:
		return s.proxy.Set(Slow)
	case Healthy:
	}
	return nil
}

// mend undoes the state that the server is in.
func (s *Server) mend(ctx context.Context) error {
	switch s.state {
	case Stopped:
		return goOn(s.process.Process)
	case Killed:
		if err := s.proxy.Set(Healthy); err != nil {
			return err
		}
		return s.start(ctx)
	case Slow:
		return s.proxy.Set(Healthy)
	case Healthy:
	}
	return nil
}

// Close ends the server whatever its state, and deletes what it stored.
func (s *Server) Close() {
	s.proxy.Close()
	s.kill()
	_ = os.RemoveAll(s.directory)
}

const logFile = "log"

// start starts the process, and waits until it answers.
func (s *Server) start(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return err
	}
	// Not bound to ctx, whose end would kill the server before the clients have closed.
	process := exec.Command(s.path, "--bind", host, "--port", port, "--dir", s.directory, "--logfile", logFile,
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--daemonize", "no")
	process.SysProcAttr = childAttributes()
	if err := process.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	exited := make(chan struct{})
	s.process, s.exited = process, exited
	go func() {
		defer close(exited)
		_ = process.Wait()
	}()
	if err := s.awaitAnswer(ctx); err != nil {
		s.kill() // so that it can be started again
		return err
	}
	return nil
}

// awaitAnswer waits until the server has read what it stored, and answers.
func (s *Server) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		if s.answers(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("%s does not answer within %v%s", program, patience, s.lastWords())
		case <-s.exited:
			return fmt.Errorf("%s has ended%s", program, s.lastWords())
		case <-ticker.C:
		}
	}
}

// answers asks the server for a sign of life; by a client for each time, since one that was refused often waits for a second.
func (s *Server) answers(ctx context.Context) bool {
	rdb := redis.NewClient(&redis.Options{Addr: s.address, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = rdb.Close() }()
	return rdb.Ping(ctx).Err() == nil
}

// lastWords is the last line of the server's log.
func (s *Server) lastWords() string {
	text, err := os.ReadFile(filepath.Join(s.directory, logFile))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || lines[len(lines)-1] == "" {
		return ""
	}
	return ": " + lines[len(lines)-1]
}

// kill ends the process at once, a stopped one too.
func (s *Server) kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill() // it may have ended by itself
	<-s.exited
}

// freeAddress is one of this machine at which nothing listens.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), listener.Close()
}
