//go:build unix

package main

import (
	"syscall"
	"time"
)

// processorTime is what this process has used so far on all processors, the system's work for it included.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}

	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
