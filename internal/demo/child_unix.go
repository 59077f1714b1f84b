//go:build unix

package demo

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's Ctrl-C from the child: the demo stops it when the results are in.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
