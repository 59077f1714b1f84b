package leaseway

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/leaseway/leaseway/rule"
)

// savedRules keeps in a directory, "" for not at all, what a start needs that
// finds no coordinator: the last rules, and how many holders shared the limits.
type savedRules struct{ dir string }

const (
	savedName = "rules.json"
	liveName  = "holders"
)

// live returns how many holders there were when the process last knew, 1 if that is not known.
func (s *savedRules) live() int64 {
	if s.dir == "" {
		return 1
	}

	text, err := os.ReadFile(filepath.Join(s.dir, liveName))
	if err != nil {
		return 1
	}

	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 1
	}

	return max(1, n)
}

func (s *savedRules) saveLive(n int64) error {
	return s.replace(liveName, strconv.AppendInt(nil, n, 10))
}

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

func (s *savedRules) save(set *rule.Set) error { return s.replace(savedName, set.Marshal()) }

// replace writes a file as a whole, so that a crash leaves the old one or the new.
func (s *savedRules) replace(name string, text []byte) error {
	if s.dir == "" {
		return nil
	}

	const private, privateDir = 0o600, 0o700

	if err := os.MkdirAll(s.dir, privateDir); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}

	f, err := os.CreateTemp(s.dir, name+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer os.Remove(f.Name())

	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(private), f.Sync(), f.Close())

	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.dir, name))
	}

	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}

	return nil
}
