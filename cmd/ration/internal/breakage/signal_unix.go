//go:build unix

package breakage

import (
	"os"
	"syscall"
)

func canSignal() error { return nil }

// stop has a process do nothing until goOn; the system goes on taking what is sent to it.
func stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func goOn(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
