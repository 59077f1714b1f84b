// Package file shows the rules of a file as a rule store that takes no changes: whoever wants to change them changes the file,
// where a pipeline, or whoever reviews it, sees that. It follows nothing by itself: it is given what is in force, and told when
// that changes.
//
// Neighbours: internal/rulestore, whose contract it fulfils as far as a file can, and the server, which reads the file.
package file

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// Store is a rulestore.Store that shows a file. It has no history, and no overrides beside those in the document.
type Store struct {
	path string

	mu      sync.Mutex
	state   *rulestore.State
	changed chan struct{} // closed when there is a newer state
}

var _ rulestore.Store = (*Store)(nil)

// New returns a Store of the file at path, without rules until the first Show.
func New(path string) *Store {
	return &Store{path: path, state: new(rulestore.Memory).Assemble(rulestore.Head{}, nil, nil), changed: make(chan struct{})}
}

// Show takes the rules that are in force now, under their version. It does not change them.
func (s *Store) Show(set *rule.Set) error {
	settings := map[string]json.RawMessage{}
	written := make(map[string]uint64, len(set.Rules))

	var parts map[string]json.RawMessage
	if err := json.Unmarshal(set.Marshal(), &parts); err != nil {
		return err
	}
	for _, name := range rulestore.DocumentSettings() {
		if value, ok := parts[name]; ok {
			settings[name], written[rulestore.SettingPlace(name)] = value, set.Version
		}
	}
	for _, r := range set.Rules {
		written[r.ID] = r.Version
	}
	ordered := *set // by id, as every store has them
	ordered.Rules = slices.SortedFunc(slices.Values(set.Rules), func(a, b *rule.Rule) int { return strings.Compare(a.ID, b.ID) })

	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = &rulestore.State{
		Head: rulestore.Head{Rules: set.Version}, Set: ordered.Next(&ordered, set.Version), Settings: settings, Written: written,
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// now is the present state, and what is closed when there is a newer one.
func (s *Store) now() (*rulestore.State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

// State is what Load gives.
func (s *Store) State() *rulestore.State {
	state, _ := s.now()
	return state
}

// Load implements rulestore.Store.
func (s *Store) Load(context.Context) (*rulestore.State, error) {
	return s.State(), nil
}

// Write implements rulestore.Store: it names the file.
func (s *Store) Write(context.Context, *rulestore.Change) (*rulestore.Record, error) {
	return nil, &rulestore.Error{
		Code: rulestore.ReadOnly, Place: s.path, Message: "the rules come from this file and take no changes from here",
		Fix: "change the file, which takes effect at once, or start the server without --rules to keep them in a rule store",
	}
}

// Overrides implements rulestore.Store. Those of the document are a part of its rules.
func (s *Store) Overrides(_ context.Context, query rulestore.Query) iter.Seq2[rulestore.Override, error] {
	return func(yield func(rulestore.Override, error) bool) {
		if _, _, err := rulestore.ParseCursor(query.After); err != nil {
			yield(rulestore.Override{}, err)
		}
	}
}

// History implements rulestore.Store: whoever keeps the file has that.
func (s *Store) History(_ context.Context, page rulestore.Page) ([]rulestore.Record, error) {
	return nil, page.Check()
}

// Watch implements rulestore.Store.
func (s *Store) Watch(ctx context.Context, tell func(rulestore.Head, error)) error {
	for {
		state, changed := s.now()
		tell(state.Head, nil)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
