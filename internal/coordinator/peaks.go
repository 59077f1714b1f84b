package coordinator

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
)

// Peak is a key that uses much of a rule.
type Peak struct {
	Use

	Rule string
	// Key is a hash of the rule and the key, the same in every coordinator: what one key used by several of them can be added.
	Key uint64
}

// topKeys is how many keys of a rule are told, those that use most.
const topKeys = 3

// commonHash is cryptographic, since keys may be secret and peaks are told to others.
func commonHash(asked *ledger.KeyAsk) uint64 {
	h := sha256.New()
	h.Write([]byte(asked.Rule))
	h.Write([]byte{0}) // no rule's id has one
	h.Write([]byte(asked.Key))

	return binary.BigEndian.Uint64(h.Sum(nil))
}

// Peaks returns the three keys of each of these rules that used most lately, at
// now (µs), by rule in the order given, and of a rule the one that uses most first.
func (m *Meter) Peaks(now int64, rules ...string) (peaks []Peak) {
	found := make(map[uint64][]Peak, len(rules)) // by the hash of the rule
	for _, id := range rules {
		found[maphash.String(m.seed, id)] = nil
	}

	for i := range m.shards {
		m.shards[i].collect(now, found)
	}

	for _, id := range rules {
		for _, p := range found[maphash.String(m.seed, id)] {
			p.Rule = id
			peaks = append(peaks, p)
		}
	}

	return peaks
}

// collect adds the keys of a shard to those found of their rules.
func (s *meterShard) collect(now int64, found map[uint64][]Peak) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for i := range s.keys {
		k := &s.keys[i]

		list, wanted := found[k.rule]
		if !wanted {
			continue
		}

		n := k.most(now)
		if n == 0 || len(list) == topKeys && list[topKeys-1].Tokens >= n {
			continue
		}

		list = append(list, Peak{Key: k.common, Use: Use{Tokens: n, Per: time.Duration(k.period) * time.Microsecond}})
		slices.SortFunc(list, func(a, b Peak) int { return cmp.Or(cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(a.Key, b.Key)) })
		found[k.rule] = list[:min(len(list), topKeys)]
	}
}

// Most is the most that one key used of each rule, by all of these peaks together. Coordinators begin their periods together, but
// a key may have used most in one by the first and in the next by the second: the sum is at most that.
func Most(peaks []Peak) map[string]Use {
	type key struct {
		rule string
		hash uint64
		per  time.Duration // another one is of another version of the rule
	}

	sums, most := map[key]int64{}, map[string]Use{}

	for _, p := range peaks {
		k := key{p.Rule, p.Key, p.Per}
		if sums[k] += p.Tokens; sums[k] > most[p.Rule].Tokens {
			most[p.Rule] = Use{Tokens: sums[k], Per: p.Per}
		}
	}

	return most
}
