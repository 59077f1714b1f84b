package postgrestest

import (
	"os"
	"os/exec"
	"syscall"
)

// nobody is the user under which Postgres runs where the tests are root's, which it refuses to run as.
const nobody = 65534

// asUser has the process run as a user that is not root, and end when the thread that starts it does.
func asUser(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
}

// give hands a directory to that user.
func give(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(dir, nobody, nobody)
}
