//go:build !unix

package breakage

import (
	"errors"
	"os"
	"syscall"
)

// errNoSignals is of systems on which a process cannot be stopped for a while.
var errNoSignals = errors.New("this system cannot stop a redis-server for a while: name a Redis by --redis URL")

func canSignal() error { return errNoSignals }

func stop(*os.Process) error { return errNoSignals }

func goOn(*os.Process) error { return errNoSignals }

func childAttributes() *syscall.SysProcAttr { return nil }
