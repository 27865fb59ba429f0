package integration

import (
	"bytes"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// door is an address that connections can be made to, and that points to a server which may change: a name in a DNS, or a
// proxy, which leaves the connections that are open where they are. It can be silent, and it can spoil the reply to one command.
//
// Of the protocol it knows only that a client which waits for an answer sends nothing else meanwhile: so what a server sends
// after a command is its reply.
type door struct {
	addr   string
	target atomic.Pointer[string]

	mark   string                   // by which it knows the commands that are counted, and whose reply can be spoilt
	passed atomic.Int64             // such commands, sent to a server
	spoil  atomic.Pointer[spoiling] // the reply to the next of them; nil: let it pass

	mu     sync.Mutex
	silent bool // accepts connections, and does nothing else
	open   map[net.Conn]bool
}

// spoiling does something else with a reply than to send it to the client. What the server says after that is lost.
type spoiling func(client *net.TCPConn, reply []byte)

func startDoor(t *testing.T, target string) *door {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &door{addr: listener.Addr().String(), open: make(map[net.Conn]bool)}
	d.target.Store(&target)
	t.Cleanup(func() {
		_ = listener.Close()
		d.hangUp()
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			if d.enter(client) {
				go d.forward(client.(*net.TCPConn))
			}
		}
	}()
	return d
}

// enter remembers a connection, and says whether it is to be carried to a server.
func (d *door) enter(client net.Conn) (carried bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[client] = true
	return !d.silent
}

// hangUp closes all connections.
func (d *door) hangUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, client := range slices.Collect(maps.Keys(d.open)) {
		_ = client.Close()
		delete(d.open, client)
	}
}

// keepSilent closes all connections, and accepts new ones without ever reading from them.
func (d *door) keepSilent() (lift func()) {
	set := func(silent bool) {
		d.mu.Lock()
		d.silent = silent
		d.mu.Unlock()
		d.hangUp()
	}
	set(true)
	return func() { set(false) }
}

// forward carries one connection, until either side closes it.
func (d *door) forward(client *net.TCPConn) {
	defer func() {
		_ = client.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.open, client)
	}()
	server, err := net.Dial("tcp", *d.target.Load())
	if err != nil {
		return
	}
	var spoil atomic.Pointer[spoiling]
	go func() {
		d.copyCommands(server, client, &spoil)
		_ = server.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			if s := spoil.Load(); s != nil {
				(*s)(client, buffer[:n])
				_, _ = io.Copy(io.Discard, server)
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// copyCommands carries what a client sends, and counts the commands with the mark. When one goes whose reply is to be spoilt, it
// says so before the server can answer.
func (d *door) copyCommands(server, client net.Conn, spoil *atomic.Pointer[spoiling]) {
	var seen []byte // lately, without a whole mark
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if d.mark != "" {
			seen = append(seen, buffer[:n]...)
			if marked := bytes.Count(seen, []byte(d.mark)); marked > 0 {
				d.passed.Add(int64(marked))
				if s := d.spoil.Swap(nil); s != nil {
					spoil.Store(s)
				}
				seen = nil
			}
			seen = seen[max(len(seen)-len(d.mark)+1, 0):]
		}
		if _, writeErr := server.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

// digestOf is the digest of a script, by the name of its file.
func digestOf(t *testing.T, file string) string {
	t.Helper()
	sums, err := os.ReadFile("../scripts/SHA1SUMS")
	require.NoError(t, err)
	for line := range strings.Lines(string(sums)) {
		if fields := strings.Fields(line); fields[1] == file {
			return fields[0]
		}
	}
	t.Fatal("no script " + file)
	return ""
}
