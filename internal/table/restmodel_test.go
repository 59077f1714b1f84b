package table_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/table"
)

// charged is a request that passed, and may be refunded.
type charged struct {
	key    string
	n      int64
	charge table.Charge
}

// Whatever happens to a rule while its keys rest, and to what was charged before, a lone holder decides as one counter would.
func TestRestsDoNotShow(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(rt *rapid.T) {
		limit := int64(10) // of so long a time that no token comes back
		doc := func() string {
			return fmt.Sprintf("rules: [{id: r, keyBy: user, limit: %d, window: 30d}, {id: other, keyBy: user, limit: 1, window: 1s}]", limit)
		}

		r := newRig(t, 1, doc())
		used := map[string]int64{}

		var paid []charged

		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 6).Draw(rt, "what") {
			case 0:
				r.wait(rapid.SampledFrom([]int64{20 * ms, 300 * ms, 2_500 * ms, 5 * sec}).Draw(rt, "wait"))
			case 1:
				limit = rapid.SampledFrom([]int64{4, 10, 30}).Draw(rt, "limit")
				r.apply(doc())
			case 2:
				if rapid.Bool().Draw(rt, "gone") {
					r.apply("rules: [{id: other, keyBy: user, limit: 1, window: 1s}]")
					r.wait(rapid.SampledFrom([]int64{0, 300 * ms, 2_500 * ms}).Draw(rt, "away"))
					r.apply(doc())
					r.wait(300 * ms) // what it was told of the rule that was gone is over
				}
			case 3:
				if len(paid) > 0 {
					p := paid[len(paid)-1]
					paid = paid[:len(paid)-1]
					r.holders[0].Refund(p.charge)
					used[p.key] -= p.n
					r.wait(300 * ms) // so that the ledger hears of it under the same rule
				}
			default:
				key := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key")
				n := rapid.Int64Range(1, 4).Draw(rt, "n")
				out := r.take(0, "r", key, n)

				if want := used[key]+n <= limit; (out.Kind == table.Allowed) != want {
					rt.Fatalf("%d tokens of %s after %d of %d: %+v", n, key, used[key], limit, out)
				}

				if out.Kind == table.Allowed {
					used[key] += n
					paid = append(paid, charged{key, n, out.Charge})
				}
			}
		}
	})
}
