package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// stateDir is a directory that belongs to this process alone: two servers that count into the same files would each undo
// what the other counted.
type stateDir struct {
	path string
	lock *os.File
}

// openStateDir makes the directory if it is missing, readable to its owner alone since keys are in it, and locks it.
func openStateDir(path string) (*stateDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("the data directory cannot be made: %w (name another one with --data-dir)", err)
	}

	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the data directory cannot be used: %w (name another one with --data-dir)", err)
	}

	taken, err := tryLock(lock)

	switch {
	case err != nil:
		lock.Close()

		return nil, fmt.Errorf("the data directory cannot be locked: %w (name another one with --data-dir)", err)
	case taken:
		owner, _ := readBounded(lock.Name(), 64) //nolint:errcheck // only to say who it is
		lock.Close()

		return nil, fmt.Errorf("another leaseway (process %s) uses the data directory %s (stop it, or name another one with --data-dir)",
			strings.TrimSpace(string(owner)), path)
	}

	// The process id is for people; the lock is what counts.
	if err := lock.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(lock, os.Getpid()) //nolint:errcheck // as above
	}

	return &stateDir{path: path, lock: lock}, nil
}

// file is the path of a file in the directory.
func (d *stateDir) file(name string) string { return filepath.Join(d.path, name) }

// close lets another process have the directory.
func (d *stateDir) close() { _ = d.lock.Close() }
