package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// fleetSizes are how many processes ask at once, and memberCallers how many callers each of them has.
var fleetSizes = []int{2, 4, 8}

const memberCallers = 16

// member is what one of several processes is told, in the variable of its environment.
type member struct {
	Redis address
	Peer  string
	Work  string
	Keys  []string
	Span  time.Duration
}

// address is where a Redis is, and who asks it.
type address struct {
	Network, Addr, Username, Password string
	DB                                int
}

func addressOf(o *redis.Options) address {
	return address{o.Network, o.Addr, o.Username, o.Password, o.DB}
}

func (a address) options() *redis.Options {
	return &redis.Options{Network: a.Network, Addr: a.Addr, Username: a.Username, Password: a.Password, DB: a.DB}
}

const memberVariable = "RATION_BENCH_MEMBER"

// processes are contests of fleets, a column for each size.
func (b *benchmark) processes(ctx context.Context) (all []throughput, err error) {
	for _, w := range []work{hotAllowed, manyAllowed} {
		c := contest{work: w, peers: some(byDefault, oneKey, leased, baseline)}
		result := throughput{contest: c, leastDenied: 1}
		keys := b.keys.take(w.keys(b.settings))
		for i, size := range fleetSizes {
			b.tell("%s: %d processes", w.title, size)
			if w.many && i == 0 {
				limiters, closeAll, err := openAll(c.peers, w.quota, b.openHere)
				if err != nil {
					return nil, err
				}
				err = b.storeFor(ctx, c, limiters, keys)
				closeAll()
				if err != nil {
					return nil, err
				}
			}
			measured, err := inRounds(b.rounds, len(c.peers), func(peer int) (measurement, error) {
				if !w.many {
					keys = b.keys.take(1)
				}
				m := member{addressOf(b.options), c.peers[peer].name, w.title, keys, b.span}
				return runFleet(ctx, m, size)
			})
			if err != nil {
				return nil, fmt.Errorf("%d processes: %w", size, err)
			}
			result.column(fmt.Sprintf("%d processes", size), measured)
		}
		all = append(all, result)
	}
	return all, nil
}

// runFleet has so many processes ask at once, and adds up what they did.
func runFleet(ctx context.Context, m member, size int) (measurement, error) {
	config, err := json.Marshal(m)
	if err != nil {
		return measurement{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, m.Span+time.Minute)
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		return measurement{}, err
	}
	type process struct {
		*exec.Cmd
		in  io.WriteCloser
		out *bufio.Scanner
	}
	fleet := make([]process, size)
	defer func() {
		cancel() // which kills those that are left
		for _, p := range fleet {
			if p.Cmd != nil {
				_ = p.Wait()
			}
		}
	}()
	for i := range fleet {
		cmd := exec.CommandContext(ctx, program)
		cmd.Env = append(os.Environ(), memberVariable+"=stdin")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return measurement{}, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return measurement{}, err
		}
		if err := cmd.Start(); err != nil {
			return measurement{}, err
		}
		fleet[i] = process{cmd, in, bufio.NewScanner(out)}
		if _, err := in.Write(append(config, '\n')); err != nil {
			return measurement{}, err
		}
	}
	for _, p := range fleet {
		if !p.out.Scan() {
			return measurement{}, errors.New("a process of the fleet did not get ready")
		}
	}
	for _, p := range fleet {
		if _, err := io.WriteString(p.in, "go\n"); err != nil {
			return measurement{}, err
		}
	}
	sum := measurement{cpu: math.NaN(), calls: math.NaN()}
	for _, p := range fleet {
		if !p.out.Scan() {
			return measurement{}, errors.New("a process of the fleet did not end well")
		}
		var did memberDid
		if err := json.Unmarshal(p.out.Bytes(), &did); err != nil {
			return measurement{}, err
		}
		sum.allowed, sum.denied = sum.allowed+did.Allowed, sum.denied+did.Denied
		sum.rate += float64(did.Allowed+did.Denied) / did.Seconds
	}
	return sum, nil
}

// memberDid is what a process says that it did.
type memberDid struct {
	Allowed, Denied int64
	Seconds         float64
}

// runMember is the part of one of several processes: it says when it is ready, asks when it is told to, and says what it did.
func runMember(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	var m member
	if !lines.Scan() {
		return errors.New("a process of a fleet is told nothing")
	}
	if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
		return err
	}
	all := some(m.Peer)
	if len(all) != 1 {
		return fmt.Errorf("there is no peer %q", m.Peer)
	}
	w := hotAllowed
	if m.Work == manyAllowed.title {
		w = manyAllowed
	}
	l, err := all[0].opened(m.Redis.options(), w.quota)
	if err != nil {
		return err
	}
	defer l.close()
	if _, err := askTimes(ctx, l, m.Keys, memberCallers, memberCallers); err != nil { // so that there are connections
		return err
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	if !lines.Scan() {
		return errors.New("a process of a fleet is not told to go")
	}
	t, elapsed, err := askFor(ctx, l, m.Keys, memberCallers, m.Span)
	if err == nil {
		err = w.check(t, elapsed)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(memberDid{t.allowed, t.denied, elapsed.Seconds()})
}
