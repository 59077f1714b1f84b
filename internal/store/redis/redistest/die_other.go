//go:build !linux

package redistest

import "os/exec"

// dieWithParent does nothing here: a test binary that is killed leaves its servers behind.
func dieWithParent(*exec.Cmd) {}
