package leaseway

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/leaseway/leaseway/rule"
)

// savedRules keeps the last rules in a directory, "" for not at all.
type savedRules struct{ dir string }

const savedName = "rules.json"

func (s *savedRules) load() (*rule.Set, error) {
	if s.dir == "" {
		return nil, nil //nolint:nilnil // no directory and no file are both no rules
	}

	path := filepath.Join(s.dir, savedName)

	doc, err := os.ReadFile(path) //nolint:gosec // the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a first start
	}

	if err != nil {
		return nil, fmt.Errorf("read the last rules: %w", err)
	}

	return rule.Parse(path, doc)
}

// save replaces the file as a whole, so that a crash leaves the old rules or the new.
func (s *savedRules) save(set *rule.Set) error {
	if s.dir == "" {
		return nil
	}

	const private, privateDir = 0o600, 0o700

	if err := os.MkdirAll(s.dir, privateDir); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}

	f, err := os.CreateTemp(s.dir, savedName+".*")
	if err != nil {
		return fmt.Errorf("write the last rules: %w", err)
	}
	defer os.Remove(f.Name())

	_, err = f.Write(set.Marshal())
	err = errors.Join(err, f.Chmod(private), f.Sync(), f.Close())

	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.dir, savedName))
	}

	if err != nil {
		return fmt.Errorf("write the last rules: %w", err)
	}

	return nil
}
