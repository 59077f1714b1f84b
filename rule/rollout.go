package rule

import (
	"strconv"
	"strings"
)

// allKeys is how many parts the keys of a rule are divided into: a rollout has two decimals of a percent.
const allKeys = 10_000

// For is the version of r that a key has, as Compact gives it: r itself, r.Before, or nil where r does not apply to the key.
// The choice is one of the rule's id and the key alone, so a larger rollout only adds keys. It does not allocate.
func (r *Rule) For(key string) *Rule {
	if r.Withheld == 0 || rolloutPlace(r.ID, key) < allKeys-r.Withheld {
		return r
	}
	return r.Before
}

// Rollout is the share of keys that have the rule as it is written, in percent, as the document writes it.
func (r *Rule) Rollout() string {
	n := allKeys - r.Withheld
	text := strconv.Itoa(n/100) + "." + strconv.Itoa(100 + n%100)[1:]
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// rolloutPlace is the place of a key among all keys of a rule, from 0 to allKeys - 1: FNV-1a over the id, a zero byte and the
// key, mixed as in MurmurHash3, whose last bits FNV leaves uneven. It must stay the same in every release.
func rolloutPlace(id, key string) int {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * prime
	}
	h *= prime // a zero byte, which no id has
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return int(h >> 32 * allKeys >> 32)
}
