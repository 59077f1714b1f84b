package admin

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// OverrideText is an override as the API takes and gives it, in JSON and, by the same names, in CSV.
type OverrideText struct {
	Rule     string `doc:"The id of the rule."                                                                json:"rule,omitempty"`
	Key      string `doc:"The value of keyBy; of several parts, with a bar between them."                     json:"key,omitempty"`
	KeyHex   string `doc:"Instead of key, where that is no text: its bytes, in hexadecimal digits."           json:"keyHex,omitempty"`
	KeySHA   string `doc:"Instead of key, of a secret one: its hash, as an export has it."                    json:"keySha256,omitempty"`
	Secret   bool   `doc:"Store a hash of the key. API keys, and keys of secret rules, always are stored so." json:"secret,omitempty"`
	Hint     string `doc:"What tells a secret key from others."                                               json:"hint,omitempty"`
	Limit    int64  `doc:"Tokens a window; left out: the rule's."                                             json:"limit,omitempty"`
	Burst    int64  `doc:"Tokens at most; left out: the limit, or the rule's."                                json:"burst,omitempty"`
	LeaseTTL string `doc:"How long a lease lives, such as 500ms; left out: the rule's."                       json:"leaseTtl,omitempty"`
	Expires  string `doc:"When it ends, such as 2026-12-01T18:00:00Z; left out: never."                       json:"expires,omitempty"`
	Note     string `doc:"For people."                                                                        json:"note,omitempty"`
}

// overrideLine is a line of an import.
type overrideLine struct {
	OverrideText

	Delete bool `json:"delete,omitempty"`
}

// textOf writes an override of the store.
func textOf(o *rulestore.Override) OverrideText {
	text := OverrideText{Rule: o.Rule, Secret: o.Secret, Limit: o.Limit, Burst: o.Burst, Note: o.Note}

	switch {
	case o.Secret:
		text.Hint = o.StoredHint()
		text.KeySHA = hex.EncodeToString(o.StoredKey()[1:])
	case utf8.ValidString(o.Key) && rule.IsCompact(o.Key):
		text.Key = o.Key
	default: // bytes, or the digest that stands for a long key
		text.KeyHex = hex.EncodeToString([]byte(o.Key))
	}

	if o.LeaseTTL != 0 {
		text.LeaseTTL = o.LeaseTTL.String()
	}

	if !o.Expires.IsZero() {
		text.Expires = o.Expires.UTC().Format(time.RFC3339Nano)
	}

	return text
}

// overrideReader makes overrides of texts.
type overrideReader struct {
	set *rule.Set
	who *principal
	now time.Time
}

// read checks one. The error, a *Problem, names the field.
func (v *overrideReader) read(text *OverrideText, deletes bool) (rulestore.Override, error) {
	o := rulestore.Override{Rule: text.Rule, Limit: text.Limit, Burst: text.Burst, Note: text.Note}

	r := v.set.Rule(text.Rule)

	switch {
	case text.Rule == "":
		return o, unfit("body.rule", "is missing", "write the id of the rule")
	case !v.who.mayRule(text.Rule):
		return o, refuse(http.StatusForbidden, "rule: %.80q is not yours", text.Rule)
	case r == nil && !deletes:
		return o, unfit("body.rule", fmt.Sprintf("%.80q is no rule", text.Rule),
			"write the id of one, as leaseway rules list shows them, or make the rule first")
	}

	if err := v.key(&o, text, r); err != nil || deletes {
		return o, err
	}

	if err := v.terms(&o, text); err != nil {
		return o, err
	}

	if _, err := r.Resolve(rule.Override{Limit: o.Limit, Burst: o.Burst, LeaseTTL: o.LeaseTTL}); err != nil {
		return o, ofText(err)
	}

	if err := o.Check(); err != nil {
		return o, explain(err, false)
	}

	return o, nil
}

// ofText is a problem of what package rule says about a text.
func ofText(err error) error {
	if e, ok := errors.AsType[*rule.TextError](err); ok {
		return unfit("body."+e.Field, e.Message, e.Fix)
	}

	return explain(err, false)
}

// key reads whose override it is. Keys that are credentials are stored as hashes.
func (v *overrideReader) key(o *rulestore.Override, text *OverrideText, r *rule.Rule) error {
	o.Secret = text.Secret || r != nil && secretKeys(r)
	given := 0

	for _, one := range []string{text.Key, text.KeyHex, text.KeySHA} {
		if one != "" {
			given++
		}
	}

	if given != 1 {
		return unfit("body.key", "is not given once", "write one of key, keyHex and keySha256")
	}

	var err error

	switch {
	case text.KeySHA != "":
		o.Secret, o.Hint = true, text.Hint
		if o.Hash, err = hex.DecodeString(text.KeySHA); err != nil || len(o.Hash) != 32 {
			return unfit("body.keySha256", "is no hash", "write the 64 hexadecimal digits of an export")
		}
	case text.KeyHex != "":
		bytes, err := hex.DecodeString(text.KeyHex)
		if err != nil || len(bytes) > rule.MaxKey {
			return unfit("body.keyHex", "is no key", "write at most 128 bytes in hexadecimal digits, as an export has them")
		}

		o.Key = string(bytes) // as it is stored
	case r == nil:
		o.Key = rule.Compact(text.Key)
	default:
		key, err := r.KeyOf(text.Key)
		if err != nil {
			return ofText(err)
		}

		o.Key = rule.Compact(key)
	}

	return nil
}

// secretKeys says whether the keys of a rule are credentials.
func secretKeys(r *rule.Rule) bool {
	return r.Secret || slices.ContainsFunc(r.KeyBy, func(part rule.KeyPart) bool { return part.Kind == rule.KeyAPIKey })
}

// terms reads what is not a number.
func (v *overrideReader) terms(o *rulestore.Override, text *OverrideText) error {
	switch {
	case text.Limit < 0:
		return unfit("body.limit", "is negative", "write a whole number from 1 on, or leave it out")
	case text.Burst < 0:
		return unfit("body.burst", "is negative", "write a whole number from 1 on, or leave it out")
	}

	if text.LeaseTTL != "" {
		ttl, err := time.ParseDuration(text.LeaseTTL)
		if err != nil || ttl <= 0 || ttl%time.Microsecond != 0 {
			return unfit("body.leaseTtl", "is no time", "write one such as 500ms")
		}

		o.LeaseTTL = ttl
	}

	if text.Expires == "" {
		return nil
	}

	expires, err := time.Parse(time.RFC3339, text.Expires)

	switch {
	case err != nil:
		return unfit("body.expires", "is no moment", "write one such as 2026-12-01T18:00:00Z")
	case !expires.After(v.now):
		return unfit("body.expires", "is over already", "write a later time, or delete the override")
	}

	o.Expires = expires.UTC().Truncate(time.Microsecond)

	return nil
}
