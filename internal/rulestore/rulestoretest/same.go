package rulestoretest

import (
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// Whoever sends the same list every night changes nothing, and nobody has to look anything up again.
func testSameOverrides(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	expires := time.Now().Add(time.Hour)

	for _, n := range []int{3, 2500} { // one by one, and by a table of their own
		all := func(yield func(rulestore.OverrideChange, error) bool) {
			_ = yield(set(rulestore.Override{Rule: "b", Key: "k", Secret: true, Limit: 1, Burst: 2, Expires: expires}), nil) &&
				yield(rulestore.OverrideChange{Override: rulestore.Override{Rule: "b", Key: "none"}, Delete: true}, nil)
			numbered(n, int64(n))(yield)
		}
		first := write(t, s, stream(all))
		again := write(t, s, stream(all))
		if first.Version == 0 || first.Overrides == 0 || again.Version != 0 || again.Overrides != 0 || again.Seq <= first.Seq {
			t.Errorf("%d: the records are %+v and %+v, want no second version", n, first, again)
		}
		last := numbered(n, int64(n))
		changed := write(t, s, stream(func(yield func(rulestore.OverrideChange, error) bool) {
			last(yield)
			yield(set(rulestore.Override{Rule: "a", Key: "customer-0000001", Limit: 9, Note: "contract"}), nil)
		}))
		if changed.Version <= first.Version || changed.Overrides != 1 {
			t.Errorf("%d: one is changed, and the record is %+v", n, changed)
		}
		found := list(t, s, rulestore.Query{Rule: "a", Keys: []string{"customer-0000001"}})
		if len(found) != 1 || found[0].Limit != 9 || found[0].Version != changed.Version {
			t.Errorf("%d: it is %+v", n, found)
		}
	}
}
