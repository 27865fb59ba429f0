//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is the time that the cores have worked for this process, in it and in the system.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
