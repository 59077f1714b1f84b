package file_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/file"
	"github.com/leaseway/leaseway/rule"
)

func set(t *testing.T, version uint64, text string) *rule.Set {
	t.Helper()
	parsed, err := rule.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Next(nil, version)
}

func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	store := file.New("rules.yaml")
	if err := store.Show(set(t, 7, "headers: ietf\nrules: [{id: b, limit: 1, window: 1s}, {id: a, limit: 2, window: 1s}]")); err != nil {
		t.Fatal(err)
	}
	state, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Set.Rules) != 2 || state.Set.Rules[0].ID != "a" || state.Set.Rule("b").Version != 7 || state.Rules != 7 ||
		state.Written["a"] != 7 || string(state.Settings["headers"]) != `"ietf"` {
		t.Errorf("%+v %s", state, state.Set.Marshal())
	}
}

func TestWritesNameTheFile(t *testing.T) {
	t.Parallel()
	_, err := file.New("rules.yaml").Write(t.Context(), &rulestore.Change{Author: "ada", Action: "rules.put"})
	if rulestore.CodeOf(err) != rulestore.ReadOnly || !strings.Contains(err.Error(), "rules.yaml") {
		t.Errorf("a write says %v", err)
	}
}

func TestWatchersHearOfEachState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := file.New("rules.yaml")
		ctx, cancel := context.WithCancel(t.Context())
		var heard []uint64
		done := make(chan error)
		go func() { done <- store.Watch(ctx, func(h rulestore.Head, _ error) { heard = append(heard, h.Rules) }) }()
		synctest.Wait()
		for v := uint64(3); v < 6; v++ {
			if err := store.Show(set(t, v, "rules: []")); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if len(heard) != 4 || heard[3] != 5 {
			t.Errorf("heard %v", heard)
		}
	})
}
