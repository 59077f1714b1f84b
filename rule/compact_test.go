package rule_test

import (
	"strings"
	"testing"

	"github.com/leaseway/leaseway/rule"
)

func TestCompactKeepsKeysApart(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("k", 64<<10)
	keys := []string{"", "a", strings.Repeat("k", rule.MaxKey), strings.Repeat("k", rule.MaxKey+1), long + "a", long + "b"}
	keys = append(keys, rule.Compact(long+"a"), "\xffsha256:") // what looks like a digest is not taken for one

	seen := map[string]string{}

	for _, k := range keys {
		c := rule.Compact(k)
		if len(c) > rule.MaxKey {
			t.Errorf("a key of %d bytes became one of %d", len(k), len(c))
		}

		if other, twice := seen[c]; twice {
			t.Errorf("%.20q and %.20q became one key", k, other)
		}

		seen[c] = k
	}

	if rule.Compact("user-1") != "user-1" {
		t.Error("a short key did not stay as it is")
	}
}
