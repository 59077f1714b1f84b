package redis

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// seen is what a coordinator keeps on its own disk: that there was data, and where. Without it a Redis that lost everything
// while no coordinator ran would look as one that nobody used yet, and every caller had a full budget again.
type seen struct {
	Data      string   `json:"data"` // its id, for people
	Prefix    string   `json:"prefix"`
	Addresses []string `json:"addresses"`
}

// maxSeen is the size of the largest file that is read, in bytes.
const maxSeen = 64 << 10

// readSeen reads the file at path; what is not there, or has no path, is nil.
func readSeen(path string) (*seen, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // nothing was seen, and nothing is wrong
	}

	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as above
	}

	if err == nil && info.Size() > maxSeen {
		err = fmt.Errorf("%s is larger than %d bytes: another program wrote it", path, maxSeen)
	}

	if err != nil {
		return nil, err
	}

	text, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}

	s := &seen{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}

	return s, nil
}

// at reports whether the data was where cfg says: under the same prefix, at one of the same addresses at least.
func (s *seen) at(cfg *Config) bool {
	return s != nil && s.Prefix == cfg.Prefix &&
		slices.ContainsFunc(s.Addresses, func(address string) bool { return slices.Contains(cfg.Addresses, address) })
}

// write replaces the file at path, in one step.
func (s *seen) write(path string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}

	file, err := os.CreateTemp(filepath.Dir(path), ".redis-*")
	if err != nil {
		return err
	}

	_, err = file.Write(append(text, '\n'))

	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}

	return os.Rename(file.Name(), path)
}
