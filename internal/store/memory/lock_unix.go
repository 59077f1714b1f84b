//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package memory

import (
	"os"
	"syscall"
)

// lockExclusive takes f for this process, which holds it until f is closed or the process ends.
func lockExclusive(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
