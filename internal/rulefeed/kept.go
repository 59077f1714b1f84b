package rulefeed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/leaseway/leaseway/rule"
)

// keptName is the file of the last good rules, by the versions that holders know.
const keptName = "rules.json"

// kept reads the rules of the last time; nil when there are none.
func (f *Feed) kept() (*rule.Set, error) {
	if f.config.Dir == "" {
		return nil, nil //nolint:nilnil // nowhere to look is nothing found
	}
	path := filepath.Join(f.config.Dir, keptName)
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a first start
	}
	if err != nil {
		return nil, fmt.Errorf("read the last rules: %w", err)
	}
	return rule.Parse(path, text)
}

// keep writes them.
func (f *Feed) keep(set *rule.Set) {
	if f.config.Dir == "" {
		return
	}
	if err := replace(f.config.Dir, keptName, set.Marshal()); err != nil {
		f.log.Warn("the rules could not be kept for a start without the rule store", "error", err)
	}
}

// replace writes a file as a whole, so that a crash leaves the old one or the new.
func replace(dir, name string, content []byte) error {
	const privateDir = 0o700
	if err := os.MkdirAll(dir, privateDir); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, name+".*") // for this user alone
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(dir, name))
}
