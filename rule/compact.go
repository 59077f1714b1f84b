package rule

import "crypto/sha256"

// MaxKey is the longest key, in bytes, that is kept as it is.
const MaxKey = 128

// compactMark begins a key that stands for a longer one; 0xff is in no valid UTF-8.
const compactMark = "\xffsha256:"

// Compact bounds a key's length: one of at most MaxKey bytes is returned as it
// is, a longer one as a digest that no other key has. Ledgers and overrides go by the compact key.
func Compact(key string) string {
	if len(key) <= MaxKey && (len(key) < len(compactMark) || key[:len(compactMark)] != compactMark) {
		return key
	}

	sum := sha256.Sum256([]byte(key))

	return compactMark + string(sum[:])
}
