package memory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A directory holds what a store leaves behind. Which files are there says how
// the last one ended, see the package comment. That holds at every instant: the
// mark is made before the snapshot goes, and the snapshot before the mark goes,
// so that a crash between the two finds both, which means that nothing has
// happened since the snapshot.
type directory struct {
	path string
	lock *os.File // one process at a time
	mark *os.File
}

const (
	snapshotFile = "ledgers.snapshot"
	corruptFile  = "ledgers.snapshot.corrupt"
	partFile     = "ledgers.snapshot.part"
	markFile     = "alive"
	lockFile     = "lock"
)

// openDirectory makes the directory if it is missing and takes it for this process.
func openDirectory(path string) (*directory, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("memory store: data directory: %w: it must be one that this user can write to", err)
	}

	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the operator names the directory
	if err != nil {
		return nil, fmt.Errorf("memory store: data directory: %w: it must be one that this user can write to", err)
	}

	if err := lockExclusive(lock); err != nil {
		_ = lock.Close()

		return nil, fmt.Errorf("memory store: the data directory %s is in use by another process (%w): "+
			"stop it, or give each process a directory of its own", path, err)
	}

	return &directory{path: path, lock: lock}, nil
}

// release lets another process have the directory.
func (d *directory) release() {
	if d.mark != nil {
		_ = d.mark.Close()
	}

	_ = d.lock.Close() // which unlocks
}

// snapshot opens the snapshot; nil if there is none.
func (d *directory) snapshot() (*os.File, error) {
	f, err := os.Open(filepath.Join(d.path, snapshotFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no snapshot is an ordinary case, not a failure
	}

	return f, err
}

// consume removes the snapshot, so that it is never taken in twice.
func (d *directory) consume() error {
	if err := os.Remove(filepath.Join(d.path, snapshotFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	return d.sync()
}

// setAside keeps a snapshot that cannot be read for whoever wants to look at it, and returns its name.
func (d *directory) setAside() (string, error) {
	name := filepath.Join(d.path, corruptFile)
	if err := os.Rename(filepath.Join(d.path, snapshotFile), name); err != nil {
		return "", err
	}

	return name, d.sync()
}

// replace makes what write writes the snapshot: all of it, on the disk, or none.
func (d *directory) replace(write func(io.Writer) error) error {
	f, err := os.OpenFile(filepath.Join(d.path, partFile), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}

	err = errors.Join(write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(d.path, snapshotFile))
	}

	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}

	return d.sync()
}

// sync makes sure that the names of the files are on the disk.
func (d *directory) sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}

	return errors.Join(f.Sync(), f.Close())
}
