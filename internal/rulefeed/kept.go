package rulefeed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

const (
	// keptName is the file of the last good rules, by the versions that holders know.
	keptName = "rules.json"
	// settingsName is the file of what the store has beside them: who may call is known without the store, too, or else a start
	// without it would let everybody in.
	settingsName = "settings.json"
)

// keptSettings is what stands in settingsName: settings and versions of a rulestore.State.
type keptSettings struct {
	Kind     string                     `json:"kind,omitempty"` // of the store: see Config
	Settings map[string]json.RawMessage `json:"settings"`
	Written  map[string]uint64          `json:"written"`
	Bad      []string                   `json:"bad,omitempty"` // places
}

// kept reads the rules of the last time; nil when there are none. The settings of the state are nil when they were not kept.
func (f *Feed) kept() (*rulestore.State, error) {
	text, err := f.keptText(keptName)
	if err != nil || text == nil {
		return nil, err
	}
	set, err := rule.Parse(filepath.Join(f.config.Dir, keptName), text)
	if err != nil {
		return nil, err
	}
	state := &rulestore.State{Head: rulestore.Head{Rules: set.Version}, Set: set}
	if text, err = f.keptText(settingsName); err != nil || text == nil {
		return state, err
	}
	var s keptSettings
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read the last settings, of %s: %w", settingsName, err)
	}
	if s.Kind != "" && f.config.Kind != "" && s.Kind != f.config.Kind {
		return nil, fmt.Errorf("the rules that were kept in %s are of another rule store (%s): start once while this one (%s) answers",
			f.config.Dir, s.Kind, f.config.Kind)
	}
	state.Settings, state.Written = s.Settings, s.Written
	for _, place := range s.Bad {
		state.Bad = append(state.Bad, rulestore.BadRow{Place: place, Err: errors.New("it could not be used when it was last read")})
	}
	return state, nil
}

// keptText reads a file of the last time; nil when there is none.
func (f *Feed) keptText(name string) ([]byte, error) {
	if f.config.Dir == "" {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(f.config.Dir, name)) //nolint:gosec // the operator names the directory
	switch {
	case errors.Is(err, fs.ErrNotExist): // a first start
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read what was kept last: %w", err)
	}
	return text, nil
}

// keep writes them. set is what is in force of the state's rules.
func (f *Feed) keep(state *rulestore.State, set *rule.Set) {
	if f.config.Dir == "" {
		return
	}
	s := keptSettings{Kind: f.config.Kind, Settings: state.Settings, Written: state.Written}
	for _, row := range state.Bad {
		s.Bad = append(s.Bad, row.Place)
	}
	text, err := json.Marshal(s)
	if err == nil {
		err = replace(f.config.Dir, settingsName, text)
	}
	if err = errors.Join(err, replace(f.config.Dir, keptName, set.Marshal())); err != nil {
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
