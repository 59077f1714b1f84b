package server

import (
	"os"
	"path/filepath"
)

// checkDataDir refuses a data directory that other users can write to, or made: they could plant a signing key, whose private
// half they know, or counts. What does not exist yet is made later, for this user alone.
func (c *Config) checkDataDir() error {
	state := c.stateDir()

	return problems(
		c.distrust(c.DataDir, os.Geteuid()),
		c.distrust(state, os.Geteuid()),
		c.distrust(filepath.Join(state, signingKey), os.Geteuid()),
	)
}

// distrust is why not to believe what is at path, for a process of the user self; links are followed. The superuser could
// change everything anyway. The error is a *UsageError.
func (c *Config) distrust(path string, self int) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // whoever opens it says what is wrong, if it is there at all
	}

	if owner, known := ownerOf(info); known && owner != 0 && owner != self {
		return usage("--data-dir: %s belongs to another user (%d, and this process is of %d), who could plant keys and counts there: "+
			"chown it, or name a directory of this user's own", path, owner, self)
	}

	const othersWrite = 0o022
	if mode := info.Mode().Perm(); ownersKnown && mode&othersWrite != 0 {
		return usage("--data-dir: other users may write to %s (mode %04o), and so plant keys and counts there: run chmod go-w %[1]s, "+
			"or name a new directory, such as %[3]s", path, mode, filepath.Join(c.DataDir, "leaseway"))
	}

	return nil
}

// noDataDir is the error of a server that was not told where to keep what must outlive it. A guess, such as a directory for
// temporary files, would be one where anyone may put things.
func noDataDir() error {
	return usage("--data-dir is not set, and neither HOME nor XDG_STATE_HOME is an absolute path to put it below: "+
		"name a directory of this user's own, such as --data-dir %s", filepath.FromSlash("/var/lib/leaseway"))
}
