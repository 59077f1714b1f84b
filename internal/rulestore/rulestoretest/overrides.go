package rulestoretest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

func testOverrides(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 123000, time.UTC)
	long := rule.Compact(strings.Repeat("x", 300))
	full := rulestore.Override{
		Rule: "a", Key: "acme", Limit: 5000, Burst: 8000, LeaseTTL: 250 * time.Millisecond, Expires: noon, Note: "contract №7",
	}
	record := write(t, s, overrides(set(full),
		set(rulestore.Override{Rule: "a", Key: "\x00\xff'; --", Limit: 1}), set(rulestore.Override{Rule: "a", Key: long, Limit: 2}),
		set(rulestore.Override{Rule: "b", Key: "acme", LeaseTTL: time.Second}), set(rulestore.Override{Rule: "b", Key: "", Limit: 4}),
		set(rulestore.Override{Rule: "b", Key: "late", Limit: 3}), set(rulestore.Override{Rule: "b", Key: "late", Limit: 4})))
	if record.Overrides != 6 || record.Version != 1 || len(record.Differences) != 6 {
		t.Errorf("the record is %+v", record)
	}
	if head := load(t, s).Head; head != (rulestore.Head{Overrides: 1}) {
		t.Errorf("the head is %+v", head)
	}
	full.Version = 1
	found := list(t, s, rulestore.Query{Rule: "a", Keys: []string{"nobody", "acme", "late", long}, Now: noon.Add(-1)})
	slices.SortFunc(found, func(a, b rulestore.Override) int { return int(b.Limit - a.Limit) })
	if len(found) != 2 || fmt.Sprint(found[0]) != fmt.Sprint(full) || found[1].Limit != 2 || found[1].Key != long {
		t.Errorf("found %+v\nwant  %+v", found, full)
	}
	found = list(t, s, rulestore.Query{Rule: "a", Keys: []string{"acme", "\x00\xff'; --"}, Now: noon})
	if len(found) != 1 || found[0].Limit != 1 {
		t.Errorf("when one has expired there is %+v", found)
	}
	all := list(t, s, rulestore.Query{})
	if len(all) != 6 || all[0].Rule != "a" || all[5].Rule != "b" || all[5].Limit != 4 {
		t.Errorf("all are %+v", all)
	}
	for n := 1; n < 8; n++ {
		var paged []rulestore.Override
		for after := ""; ; after = paged[len(paged)-1].Cursor() {
			page := list(t, s, rulestore.Query{Limit: n, After: after})
			if paged = append(paged, page...); len(page) < n {
				break
			}
		}
		if fmt.Sprint(paged) != fmt.Sprint(all) {
			t.Errorf("in pages of %d: %+v", n, paged)
		}
	}
	if ofB := list(t, s, rulestore.Query{Rule: "b"}); len(ofB) != 3 {
		t.Errorf("those of b are %+v", ofB)
	}
	for _, err := range s.Overrides(t.Context(), rulestore.Query{After: "zz.top"}) {
		if rulestore.CodeOf(err) != rulestore.Invalid {
			t.Errorf("no cursor: %v", err)
		}
	}

	gone := rulestore.OverrideChange{Override: rulestore.Override{Rule: "a", Key: "acme"}, Delete: true}
	record = write(t, s, overrides(gone))
	if record.Version != 2 || record.Overrides != 1 || !strings.Contains(string(record.Differences[0].Before), "5000") {
		t.Errorf("the record of a deletion is %+v", record)
	}
	if record := write(t, s, overrides(gone)); record.Version != 0 {
		t.Errorf("to delete what is not there is version %d", record.Version)
	}
	for _, bad := range []rulestore.Override{
		{Key: "k", Limit: 1}, {Rule: "a", Key: "k"}, {Rule: "a", Key: "k", Limit: -1}, {Rule: "a", Key: "k", Burst: 1<<51 + 1},
		{Rule: "a", Key: strings.Repeat("x", 300), Limit: 1}, {Rule: "a", Key: "k", Limit: 1, Note: "\xff"},
		{Rule: "a", Key: "k", Limit: 1, LeaseTTL: 2 * time.Hour}, {Rule: "a", Secret: true, Limit: 1},
		{Rule: "a\x00", Key: "k", Limit: 1}, {Rule: "a", Key: "k", Limit: 1, Expires: time.Unix(-1, 0)},
	} {
		refused(t, s, overrides(set(rulestore.Override{Rule: "a", Key: "fine", Limit: 1}), set(bad)), rulestore.Invalid)
	}
	if found := list(t, s, rulestore.Query{Rule: "a", Keys: []string{"fine"}}); len(found) != 0 {
		t.Error("a part of a change that was refused is there")
	}
}

func testSecret(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	const key = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
	record := write(t, s, overrides(
		set(rulestore.Override{Rule: "a", Key: key, Secret: true, Limit: 9}),
		set(rulestore.Override{Rule: "b", Key: key, Secret: true, Limit: 8})))
	if text := fmt.Sprintf("%s %+v", record.Differences, history(t, s, rulestore.Page{Version: 1})); strings.Contains(text, key) {
		t.Errorf("the record shows the key: %s", text)
	}
	listed := list(t, s, rulestore.Query{})
	if len(listed) != 2 || listed[0].Key != "" || !listed[0].Secret || !strings.HasPrefix(listed[0].Hint, "sha256:") ||
		bytes.Equal(listed[0].Hash, listed[1].Hash) {
		t.Fatalf("listed are %+v", listed)
	}
	found := list(t, s, rulestore.Query{Rule: "a", Keys: []string{key, "sk_other"}})
	if len(found) != 1 || found[0].Limit != 9 || found[0].Key != key {
		t.Errorf("found is %+v", found)
	}
	// What was listed can be put back without the key, as an import of an export does.
	listed[0].Limit = 10
	write(t, s, overrides(set(listed[0])))
	found = list(t, s, rulestore.Query{Rule: "a", Keys: []string{key}})
	if len(found) != 1 || found[0].Limit != 10 || found[0].Hint != listed[0].Hint {
		t.Errorf("put back it is %+v", found)
	}
	err := refusal(t, s, overrides(set(rulestore.Override{Rule: "a", Key: key, Secret: true, Limit: -9})), rulestore.Invalid)
	if strings.Contains(err.Error(), key) {
		t.Errorf("the error shows the key: %v", err)
	}
}

// numbered yields n overrides.
func numbered(n int, limit int64) func(func(rulestore.OverrideChange, error) bool) {
	return func(yield func(rulestore.OverrideChange, error) bool) {
		for i := range n {
			if !yield(set(rulestore.Override{Rule: "a", Key: fmt.Sprintf("customer-%07d", i), Limit: limit, Note: "contract"}), nil) {
				return
			}
		}
	}
}

func testImport(t *testing.T, site Site) {
	t.Helper()

	const n = 12_345
	s := site.Open(t)
	record := write(t, s, stream(numbered(n, 5)))
	if record.Overrides != n || record.Version != 1 || len(record.Differences) != 0 {
		t.Errorf("the record is %+v", record)
	}
	cut := errors.New("line 6000: the connection was cut")
	for name, bad := range map[string]func(func(rulestore.OverrideChange, error) bool) bool{
		"an error": func(yield func(rulestore.OverrideChange, error) bool) bool {
			return yield(rulestore.OverrideChange{}, cut)
		},
		"a bad override ": func(yield func(rulestore.OverrideChange, error) bool) bool {
			return yield(set(rulestore.Override{Rule: "a", Key: "k"}), nil)
		},
	} {
		_, err := s.Write(t.Context(), stream(func(yield func(rulestore.OverrideChange, error) bool) {
			numbered(6000, 1)(yield)
			if bad(yield) {
				t.Errorf("%s: it went on", name)
			}
		}))
		if !errors.Is(err, cut) && rulestore.CodeOf(err) != rulestore.Invalid || !strings.Contains(err.Error(), "after 6000") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An export is imported elsewhere as it is; then some are changed and others deleted with one change, the last of a key wins.
	all := list(t, s, rulestore.Query{})
	if len(all) != n || all[0].Limit != 5 || all[n-1].Version != 1 {
		t.Fatalf("there are %d, the first is %+v", len(all), all[0])
	}
	record = write(t, s, stream(func(yield func(rulestore.OverrideChange, error) bool) {
		for round := range 2 {
			for i, one := range all {
				one.Limit = int64(100 + round)
				if !yield(rulestore.OverrideChange{Override: one, Delete: i%2 == round}, nil) {
					return
				}
			}
		}
	}))
	rest := list(t, s, rulestore.Query{})
	if record.Overrides != n || len(rest) != n/2+1 || rest[0].Key != "customer-0000000" || rest[0].Limit != 101 || rest[0].Version != 2 {
		t.Errorf("changed were %d, left are %d, the first is %+v", record.Overrides, len(rest), rest[0])
	}
	write(t, s, stream(numbered(2000, 7))) // the connection can do it again
	if found := list(t, s, rulestore.Query{Rule: "a", Keys: []string{"customer-0001999"}}); len(found) != 1 || found[0].Limit != 7 {
		t.Errorf("imported again there is %+v", found)
	}
}

func testSlowImport(t *testing.T, site Site) {
	t.Helper()

	s, other := site.Open(t), site.Open(t)
	write(t, s, stream(func(yield func(rulestore.OverrideChange, error) bool) {
		numbered(3000, 5)(yield)
		// The sender has not finished, and others write: here, and in another process.
		write(t, s, change(t, ruleA))
		write(t, other, change(t, ruleB))
		write(t, other, overrides(set(rulestore.Override{Rule: "a", Key: "customer-0000001", Limit: 1})))
		yield(set(rulestore.Override{Rule: "a", Key: "last", Limit: 5}), nil)
	}))
	if head := load(t, s).Head; head != (rulestore.Head{Rules: 2, Overrides: 4}) {
		t.Errorf("the head is %+v", head)
	}
	if all := list(t, other, rulestore.Query{}); len(all) != 3001 {
		t.Errorf("there are %d", len(all))
	}
}

// Million imports n overrides, lists them and looks some up, and says what it took.
func Million(t *testing.T, s rulestore.Store, n int) {
	t.Helper()
	began := time.Now()
	memory := peak(t)
	record := write(t, s, stream(numbered(n, 5)))
	t.Logf("%d overrides imported in %v, the heap grew by %d MiB at most",
		record.Overrides, time.Since(began).Round(time.Millisecond), memory()>>20)
	began, memory = time.Now(), peak(t)
	count := 0
	for _, err := range s.Overrides(t.Context(), rulestore.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	t.Logf("%d overrides exported in %v, the heap grew by %d MiB at most", count, time.Since(began).Round(time.Millisecond), memory()>>20)
	if count != n || record.Overrides != int64(n) {
		t.Errorf("imported %d and exported %d of %d", record.Overrides, count, n)
	}
	const lookups = 200
	began = time.Now()
	for i := range lookups {
		key := fmt.Sprintf("customer-%07d", i*(n/lookups))
		found := list(t, s, rulestore.Query{Rule: "a", Keys: []string{key}})
		if len(found) != 1 || found[0].Key != key {
			t.Fatalf("%s: %+v", key, found)
		}
	}
	t.Logf("one of them is looked up in %v", time.Since(began)/lookups)
}
