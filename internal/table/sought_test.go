package table

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"
)

// Keys that differ by a number, or by one byte wherever it is, lie as far from
// their places as chance would have it: half a slot, on average.
func TestKeysThatAreAlikeAreSpread(t *testing.T) {
	t.Parallel()

	word := func(at int) func(i int) string {
		return func(i int) string {
			var b [shortKey - 1]byte

			binary.BigEndian.PutUint16(b[at:], uint16(i))

			return string(b[:])
		}
	}

	families := map[string]func(i int) string{
		"numbers":         strconv.Itoa,
		"with zeros":      func(i int) string { return fmt.Sprintf("%07d", i) },
		"after a name":    func(i int) string { return fmt.Sprintf("user-%d", i) },
		"before a name":   func(i int) string { return fmt.Sprintf("%d-user", i) },
		"addresses":       func(i int) string { return fmt.Sprintf("10.%d.%d.7", i>>8, i&0xff) },
		"the first bytes": word(0),
		"in the middle":   word(7),
		"the last bytes":  word(shortKey - 3),
		"long":            func(i int) string { return fmt.Sprintf("a key that is not short %d", i) },
	}

	for name, key := range families {
		const n = 20_000

		var k keys

		k.init(newSecret())

		hashes := map[uint64]bool{}

		for i := range n {
			hashes[k.secret.seek(key(i)).hash] = true

			k.add(keyed(key(i)))
		}

		if len(hashes) != n {
			t.Errorf("%s: %d hashes of %d keys", name, len(hashes), n)
		}

		away, fullest := k.spread()
		if mean := float64(away) / n; mean > 0.1 {
			t.Errorf("%s: a key is %.2f lines from its place, on average, want 0.1 at most", name, mean)
		}

		if most := n / keyParts * 5 / 4; fullest > most {
			t.Errorf("%s: a part has %d keys, want %d at most", name, fullest, most)
		}
	}
}

// spread returns how many lines all keys are away from their places, and how many keys the fullest part has.
func (k *keys) spread() (away uint64, fullest int) {
	for i := range k.parts {
		t := k.parts[i].table.Load()
		if t == nil {
			continue
		}

		for j := range t.lines {
			for n := range t.lines[j].each {
				if e := t.lines[j].each[n].Load(); e != nil {
					away += (uint64(j) - k.secret.seek(e.key()).hash) & t.mask
				}
			}
		}

		fullest = max(fullest, k.parts[i].live)
	}

	return away, fullest
}
