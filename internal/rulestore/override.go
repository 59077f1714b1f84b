package rulestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leaseway/leaseway/rule"
)

// Override is another limit for one key of a rule, as a store keeps it.
type Override struct {
	// Rule is the id. The rule need not be in this store: rules may come from a file.
	Rule string
	// Key is as rule.Compact gives it. Of a secret one it is empty in what a listing yields, and set in what a lookup does.
	Key string
	// Secret says that only a hash of the key is stored, so that no reader of the store learns it.
	Secret bool
	// Hash is what is stored of a secret key, by which a listing can be imported again; SecretHash makes it of the key.
	Hash []byte
	// Hint tells people a secret key from others.
	Hint string
	// Limit is in tokens a Window of the rule, and Burst in tokens; 0 is as in rule.Override. LeaseTTL is 0 for the rule's own.
	Limit, Burst int64
	LeaseTTL     time.Duration
	// Expires is when it ends, to the microsecond; the zero time is never.
	Expires time.Time
	// Note is for people.
	Note string
	// Version is the one that wrote it; a change need not set it.
	Version uint64

	stray []byte // a stored key that is not of our making
}

// Query says which overrides to yield.
type Query struct {
	// Rule restricts to one rule; empty for all.
	Rule string
	// Keys looks up these keys of Rule, as rule.Compact gives them, secret or not; nil lists. At most MaxLookup.
	Keys []string
	// Now is the time at which a lookup leaves out what has expired.
	Now time.Time
	// After is where the last page ended, by Cursor; empty for the first.
	After string
	// Limit is how many to yield at most; 0 for all, which is read in steps and never held in memory.
	Limit int
}

// Check finds what no store can be asked. The error is an *Error.
func (q *Query) Check() error {
	if !isText(q.Rule) {
		return invalid("rule", "write the id of a rule", "%.40q is no text", q.Rule)
	}
	return nil
}

// MaxLookup is how many keys one query may look up.
const MaxLookup = 10_000

// The first byte of a stored key tells the kinds apart, so that no key can be taken for the hash of another.
const (
	plainKey  = 'k'
	secretKey = 's'
)

const maxAmount = 1 << 51 // what package rule lets a bucket count to

// maxRuleID bounds what is kept of a rule that need not be here; package rule has narrower bounds for ids.
const maxRuleID = 1000

// Check finds what no store would take. Whether a bucket of the rule can count the limit is for package rule to say.
func (o *Override) Check() error {
	place := o.Place()
	if err := checkText(place+": note", o.Note, false); err != nil {
		return err
	}
	if err := checkText(place+": hint", o.Hint, false); err != nil {
		return err
	}
	switch {
	case o.Rule == "" || len(o.Rule) > maxRuleID || !isText(o.Rule):
		return invalid(place, "write the id of the rule", "the override is of no rule")
	case len(o.Hash) != 0 && (!o.Secret || len(o.Hash) != sha256.Size):
		return invalid(place, "take both from an export", "a hash has %d bytes and is of a secret key", sha256.Size)
	case len(o.Hash) != 0 && o.Key != "":
		return invalid(place, "leave out the hash", "both a key and its hash are given")
	case len(o.Key) > rule.MaxKey:
		return invalid(place, "give what rule.Compact makes of it", "the key has %d bytes", len(o.Key))
	case o.Secret && o.Key == "" && len(o.Hash) == 0:
		return invalid(place, "give the key", "a secret key has neither itself nor a hash")
	case o.Limit < 0 || o.Limit > maxAmount:
		return invalid(place+": limit", "write a whole number from 1 on", "%d is out of bounds", o.Limit)
	case o.Burst < 0 || o.Burst > maxAmount:
		return invalid(place+": burst", "write a whole number from 1 on", "%d is out of bounds", o.Burst)
	case o.LeaseTTL < 0 || o.LeaseTTL > time.Hour || o.LeaseTTL%time.Microsecond != 0:
		return invalid(place+": lease", "write a time such as 500ms", "%v is out of bounds", o.LeaseTTL)
	case o.Limit == 0 && o.Burst == 0 && o.LeaseTTL == 0:
		return invalid(place, "write a limit, a burst or a lease", "the override changes nothing")
	case !o.Expires.IsZero() && o.Expires.UnixMicro() <= 0:
		return invalid(place+": expires", "write a later time", "%v is out of bounds", o.Expires)
	}
	return nil
}

// Place names an override in errors, without a secret key.
func (o *Override) Place() string {
	key := o.Key
	if o.Secret {
		key = o.hint()
	}
	if !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
		key = strconv.QuoteToASCII(key)
	}
	return OverridePlace + o.Rule + " " + key
}

// OverridePlace is how the places of overrides begin.
const OverridePlace = "overrides "

// StoredKey is what a store keeps of the key, and finds it by.
func (o *Override) StoredKey() []byte {
	switch {
	case o.stray != nil:
		return o.stray
	case !o.Secret:
		return append([]byte{plainKey}, o.Key...)
	case len(o.Hash) != 0:
		return append([]byte{secretKey}, o.Hash...)
	}
	return append([]byte{secretKey}, SecretHash(o.Rule, o.Key)...)
}

// StoredHint is the hint that a store keeps.
func (o *Override) StoredHint() string {
	if !o.Secret {
		return ""
	}
	return o.hint()
}

// SetStoredKey is the opposite of StoredKey, as far as there is one. The error is an *Error; Cursor works all the same.
func (o *Override) SetStoredKey(stored []byte) error {
	switch {
	case len(stored) > 0 && stored[0] == plainKey:
		o.Key = string(stored[1:])
	case len(stored) == 1+sha256.Size && stored[0] == secretKey:
		o.Secret, o.Hash = true, bytes.Clone(stored[1:])
	default:
		o.stray = append([]byte{}, stored...)
		return invalid("overrides "+o.Rule+" "+hex.EncodeToString(stored), "delete the row", "the key is not of Leaseway's making")
	}
	return nil
}

// SecretHash is the SHA-256 of a secret key, with the rule before it, so that the same key under two rules does not show.
func SecretHash(ruleID, key string) []byte {
	sum := sha256.Sum256([]byte("leaseway override\x00" + ruleID + "\x00" + key))
	return sum[:]
}

// Cursor is Query.After for the overrides that come after o.
func (o *Override) Cursor() string {
	return hex.EncodeToString([]byte(o.Rule)) + "." + hex.EncodeToString(o.StoredKey())
}

// ParseCursor reads what Cursor made. The error is an *Error.
func ParseCursor(text string) (ruleID string, storedKey []byte, err error) {
	if text == "" {
		return "", nil, nil
	}
	before, after, _ := strings.Cut(text, ".")
	id, err1 := hex.DecodeString(before)
	storedKey, err2 := hex.DecodeString(after)
	if err1 != nil || err2 != nil || len(storedKey) == 0 || !isText(string(id)) || len(text) > 4*(maxRuleID+rule.MaxKey) {
		return "", nil, invalid("after", "take it from the page before", "%.40q is no place in the list", text)
	}
	return string(id), storedKey, nil
}

// hint is what package rule shows of a secret key.
func (o *Override) hint() string {
	if o.Key == "" {
		return o.Hint
	}
	return (&rule.Rule{Secret: true}).ShowKey(o.Key)
}

// isText says whether a text is one that every store can keep, and look for.
func isText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// checkText bounds what people write, to what every store can keep.
func checkText(place, text string, required bool) error {
	switch {
	case required && text == "":
		return invalid(place, "write one", "is empty")
	case len(text) > MaxText:
		return invalid(place, "write less", "has %d bytes, which is more than %d", len(text), MaxText)
	case !isText(text):
		return invalid(place, "write UTF-8 without the character 0", "is no text")
	}
	return nil
}
