package coordinator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/rule"
)

// record is how a rule set is numbered, without the set: what rules say may be secret, such as the keys of overrides, and
// digests do to know it again.
type record struct {
	version uint64
	digest  string // of the set
	rules   map[string]numberedRule
}

// numberedRule is how a rule is numbered, and what it does.
type numberedRule struct {
	Version uint64 `json:"v"`
	Digest  string `json:"d"`
}

// digestSize is how many bytes of SHA-256 a digest has: two sets of rules are never taken for one by chance.
const digestSize = 16

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)

	return hex.EncodeToString(sum[:digestSize])
}

// digestOf is of all that a set says, descriptions included, whatever its versions.
func digestOf(set *rule.Set) string { return sumOf(set.Next(nil, 0).Marshal()) }

// ruleDigest is of what a rule does, whatever its version and description.
func ruleDigest(r *rule.Rule) string {
	one := *r
	one.Description = ""

	return digestOf(&rule.Set{Rules: []*rule.Rule{&one}})
}

// recordOf returns how a numbered set is numbered.
func recordOf(set *rule.Set) *record {
	r := &record{version: set.Version, digest: digestOf(set), rules: make(map[string]numberedRule, len(set.Rules))}
	for _, one := range set.Rules {
		r.rules[one.ID] = numberedRule{one.Version, ruleDigest(one)}
	}

	return r
}

// number returns set under version, where rules that do what they did keep the version that r has for them.
func (r *record) number(set *rule.Set, version uint64) *rule.Set {
	next := set.Next(nil, version) // whose rules are copies
	for _, one := range next.Rules {
		if old, ok := r.rules[one.ID]; ok && old.Version <= version && old.Digest == ruleDigest(one) {
			one.Version = old.Version
			if one.Before != nil {
				one.Before.Version = old.Version
			}
		}
	}

	return next
}

// text returns r as a register keeps it.
func (r *record) text() store.Numbers {
	rules, _ := json.Marshal(r.rules) //nolint:errchkjson // strings and numbers

	return store.Numbers{Head: fmt.Sprintf("1 %d %s", r.version, r.digest), Rules: string(rules)}
}

// readRecord reads what text wrote; of nothing it is a record of no rules.
func readRecord(n store.Numbers) (*record, error) {
	r := &record{}
	if n.Head == "" {
		return r, nil
	}

	layout := 0
	if _, err := fmt.Sscanf(n.Head, "%d %d %s", &layout, &r.version, &r.digest); err != nil || layout != 1 || r.version > maxNumber {
		return nil, fmt.Errorf("coordinator: how rules are numbered, %q, was written by another version of Leaseway", n.Head)
	}

	if err := json.Unmarshal([]byte(n.Rules), &r.rules); err != nil {
		return nil, fmt.Errorf("coordinator: how rules are numbered cannot be read: %w", err)
	}

	return r, nil
}
