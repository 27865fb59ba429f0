//go:build unix && !linux

package breakage

import "syscall"

// childAttributes keep Ctrl-C in a terminal from the server, which closes when its clients have.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
