//go:build !unix

package server

import "os"

// ownersKnown says that the system has no owners and modes of files as Unix has them.
const ownersKnown = false

func ownerOf(os.FileInfo) (uid int, known bool) { return 0, false }
