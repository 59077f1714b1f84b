package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the process end when the thread that starts it does.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
