package rulestoretest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// board is a store on which notes can be left.
func board(t *testing.T, s rulestore.Store) rulestore.Board {
	t.Helper()
	b, ok := s.(rulestore.Board)
	if !ok {
		t.Fatalf("%T takes no notes", s)
	}
	return b
}

func pin(t *testing.T, b rulestore.Board, from, body string) {
	t.Helper()
	if err := b.Pin(t.Context(), from, []byte(body)); err != nil {
		t.Fatal(err)
	}
}

// read is what the notes say, each as "from: body".
func read(t *testing.T, b rulestore.Board) (texts []string, head rulestore.Head) {
	t.Helper()
	notes, head, err := b.Notes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range notes {
		if n.Age < 0 || n.Age > rulestore.NoteTTL {
			t.Errorf("the note of %s is %v old", n.From, n.Age)
		}
		texts = append(texts, n.From+": "+string(n.Body))
	}
	return texts, head
}

// Notes are seen by everybody, replaced by their writers, gone when they are old, and part of no version.
func testNotes(t *testing.T, site Site) {
	t.Helper()

	s, other := site.Open(t), site.Open(t)
	one, two := board(t, s), board(t, other)
	write(t, s, change(t, ruleA))
	told := watch(t, other)
	await(t, told, func(h rulestore.Head) bool { return h.Rules == 1 })
	pin(t, one, "one", "first")
	pin(t, two, "two", "hello")
	pin(t, one, "one", "second")

	for _, b := range []rulestore.Board{one, two} {
		if texts, head := read(t, b); !slices.Equal(texts, []string{"one: second", "two: hello"}) || head != (rulestore.Head{Rules: 1}) {
			t.Errorf("the board says %q, and the head is %v", texts, head)
		}
	}
	if records := history(t, s, rulestore.Page{}); len(records) != 1 {
		t.Errorf("notes left %d records beside the change", len(records)-1)
	}

	// Too old by the database's clock, and of one that was set back an hour.
	for _, by := range []time.Duration{2 * rulestore.NoteTTL, -time.Hour} {
		site.Exec(t, "UPDATE notes SET at_us = at_us - $1 WHERE name = 'two'", by.Microseconds())
		if texts, _ := read(t, one); !slices.Equal(texts, []string{"one: second"}) {
			t.Errorf("%v later the board says %q", by, texts)
		}
		pin(t, one, "one", "second")
		site.Exec(t, "INSERT INTO notes (name, at_us, body) VALUES ('two', (SELECT at_us FROM notes), 'again')") // it was taken down
	}

	pin(t, two, "two", "")
	if texts, _ := read(t, one); !slices.Equal(texts, []string{"one: second"}) {
		t.Errorf("after one was taken down the board says %q", texts)
	}
	for _, bad := range []struct{ from, body string }{{"", "x"}, {"one", strings.Repeat("x", rulestore.MaxNote+1)}} {
		if err := one.Pin(t.Context(), bad.from, []byte(bad.body)); rulestore.CodeOf(err) != rulestore.Invalid {
			t.Errorf("a note of %q with %d bytes: %v", bad.from, len(bad.body), err)
		}
	}
	if err := board(t, site.OpenReadOnly(t)).Pin(t.Context(), "three", []byte("x")); rulestore.CodeOf(err) != rulestore.ReadOnly {
		t.Errorf("a store for reading took a note: %v", err)
	}

	// A watcher is told of the next change, and of nothing before it.
	write(t, s, change(t, strings.ReplaceAll(ruleA, "100", "101")))
	select {
	case w := <-told:
		if w.err != nil || w.head.Rules != 2 {
			t.Errorf("a watcher was told %+v of notes", w)
		}
	case <-time.After(patience):
		t.Error("a watcher was not told of a change")
	}
}

// The board is bounded, whoever else has access to the database.
func testManyNotes(t *testing.T, site Site) {
	t.Helper()

	b := board(t, site.Open(t))
	for i := range rulestore.MaxNotes + 20 {
		pin(t, b, fmt.Sprintf("one of many: %d", i), "x")
	}
	if texts, _ := read(t, b); len(texts) != rulestore.MaxNotes || !slices.IsSorted(texts) {
		t.Errorf("%d notes are read, want %d in the order of their names", len(texts), rulestore.MaxNotes)
	}
}
