package rule

import (
	"crypto/sha256"
	"strings"
)

// MaxKey is the longest key, in bytes, that is kept as it is.
const MaxKey = 128

// compactMark begins a key that stands for a longer one. Its first byte is in no
// valid UTF-8, and keys that begin with it are digests, too.
const compactMark = "\xffsha256:"

// Compact bounds a key's length: one of at most MaxKey bytes is returned as it
// is, a longer one as a digest that no other key has. Ledgers and overrides go by the compact key.
func Compact(key string) string {
	if IsCompact(key) {
		return key
	}

	sum := sha256.Sum256([]byte(key))

	return compactMark + string(sum[:])
}

// testMark begins the keys of ledgers that requests of ClassTest spend. No compact key begins so: those that begin with its
// first byte are digests.
const testMark = "\xfftest:"

// TestKey is the key of the ledger that requests of ClassTest spend where others spend compact, which Compact gave.
func TestKey(compact string) string { return testMark + compact }

// LiveKey is the key that was given to TestKey, or any other key as it is: limits and overrides go by it.
func LiveKey(key string) string { return strings.TrimPrefix(key, testMark) }

// IsCompact reports whether Compact returns key as it is.
func IsCompact(key string) bool {
	return len(key) <= MaxKey && (key == "" || key[0] != compactMark[0])
}
