package rule

// TextError says why a text that somebody wrote is no key, or no override, of a rule.
type TextError struct {
	// Field is what is wrong: key, limit, burst or lease.
	Field string
	// Message says what is wrong, Fix what to write instead.
	Message, Fix string
}

// Error is "field: message (fix)".
func (e *TextError) Error() string { return e.Field + ": " + e.Message + " (" + e.Fix + ")" }

// KeyOf is the key that requests spend under r for what people write: the value of keyBy, or those of several parts with bars
// between them, in which "\|" is a bar. A rule by global has one key, whatever the text. The error is a *TextError.
func (r *Rule) KeyOf(text string) (string, error) {
	parts := []string{text}
	if len(r.KeyBy) > 1 {
		parts = splitKey(text)
	} else if r.KeyBy[0].Kind == KeyGlobal {
		return "", nil
	}
	if len(parts) != len(r.KeyBy) {
		return "", &TextError{Field: "key", Message: "does not have the parts of keyBy", Fix: "write them with a bar between: one|two"}
	}
	key, _, fix := r.keyOfParts(parts)
	if fix != "" {
		return "", &TextError{Field: "key", Message: "is never a key of this rule", Fix: fix}
	}
	return string(key), nil
}

// keyOfParts is the key of parts, as many as keyBy has; or the part that none can have, and what to write instead.
func (r *Rule) keyOfParts(parts []string) (key []byte, bad, fix string) {
	for i, part := range parts {
		if i > 0 {
			key = append(key, keySeparator)
		}
		from := len(key)
		canonical, fix := r.canonicalPart(r.KeyBy[i].Kind, part)
		if fix != "" {
			return nil, part, fix
		}
		key = append(key, canonical...)
		if len(parts) > 1 {
			key = escapePart(key, from)
		}
	}
	return key, "", ""
}

// Resolve is the quota of a key with an override that is kept apart from the document. The error, a *TextError, is for one that
// the rule could not keep, such as a limit that its bucket cannot count.
func (r *Rule) Resolve(o Override) (Quota, error) {
	q := r.resolve(o)
	refuse := func(field, message, fix string) (Quota, error) {
		return Quota{}, &TextError{Field: field, Message: message, Fix: fix}
	}
	switch {
	case r.KeyBy[0].Kind == KeyGlobal:
		return refuse("key", "a rule by global has one key, and no overrides", "change the rule's limit")
	case o == (Override{}):
		return refuse(limitKey, "the override changes nothing", "write a limit, a burst or a lease")
	case o.Burst != 0 && !r.Algorithm.HasBurst():
		return refuse(burstKey, "burst is for buckets", "leave it out")
	case o.Window != 0 && (r.Calendar != CalendarNone || r.Algorithm == Concurrency):
		return refuse(windowKey, "is not for one key alone under this rule", "leave it out")
	case o.LeaseTTL != 0 && (o.LeaseTTL < minLeaseTTL || o.LeaseTTL > maxLeaseTTL):
		return refuse("lease", "is out of bounds", "write a time from 10ms to 10m")
	case o.LeaseTTL != 0 && r.Algorithm == Concurrency && o.LeaseTTL < minSlotTTL:
		return refuse("lease", "is too short for concurrency, where a server says three times in it that it lives", "write 1s or more")
	case q.Limit == 0 || q.Window == 0 && r.Algorithm != Concurrency:
		return refuse(limitKey, "the rule has no limit and window that it could keep", "write both into the rule")
	}
	if field, message, fix := uncountable(r.Algorithm, q); message != "" {
		return refuse(field, message, fix)
	}
	return q, nil
}
