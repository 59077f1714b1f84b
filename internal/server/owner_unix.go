//go:build unix

package server

import (
	"os"
	"syscall"
)

// ownersKnown says that the system has owners and modes of files as Unix has them.
const ownersKnown = true

// ownerOf is the user that a file belongs to.
func ownerOf(info os.FileInfo) (uid int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}

	return int(stat.Uid), true
}
