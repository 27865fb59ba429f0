package breakage

import "syscall"

// childAttributes keep Ctrl-C in a terminal from the server, which closes when its clients have; and end it with this process, however
// that ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
