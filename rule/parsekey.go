package rule

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// key reads keyBy and normalize.
func (o *object) key(r *Rule) {
	r.KeyBy = []KeyPart{{Kind: KeyGlobal}}
	if v, ok := o.get("keyBy"); ok {
		r.KeyBy = v.keyParts()
	}
	v, ok := o.get("normalize")
	if !ok || v.node.Kind == yaml.SequenceNode && len(v.node.Content) == 0 {
		return
	}
	steps := v.words(func(text string) (string, string) {
		return text, whenNot(contains(normalizeWords(), text), suggest(text, normalizeWords()))
	})
	r.Normalize = Normalize{Trim: contains(steps, "trim"), Casefold: contains(steps, "casefold"), NFC: contains(steps, "nfc")}
}

func normalizeWords() []string { return []string{"trim", "casefold", "nfc"} }

// keyParts reads a part of a key, or a list of them.
func (v value) keyParts() []KeyPart {
	items := v.list(maxKeyParts)
	if len(items) == 0 {
		v.fail("is an empty list", "write global for one budget that all share")
	}
	var parts []KeyPart
	for _, item := range items {
		text, ok := item.text(maxName)
		if !ok {
			continue
		}
		part, fix := item.keyPart(text)
		if fix != "" {
			item.fail(quote(text)+" is no part of a key", fix)
			continue
		}
		for _, other := range parts {
			if other == part {
				item.fail(quote(text)+" is in the list twice", "keep one of them")
			}
		}
		parts = append(parts, part)
		if part.Kind == KeyGlobal && len(items) > 1 {
			item.fail("global is one budget for all, and has no other part", "leave global out, or write it alone")
		}
	}
	return parts
}

// keyPart reads one part; the fix says how to write it when it is none.
func (v value) keyPart(text string) (part KeyPart, fix string) {
	word, name, named := strings.Cut(text, ":")
	kind := slices.Index(keyWords(), word)
	if kind < 0 {
		return part, suggest(word, []string{"user", "ip", "apikey", "endpoint", "global", "header:NAME", "descriptor:NAME"})
	}
	part = KeyPart{Kind: KeyKind(kind), Name: name}
	wants := part.Kind == KeyHeader || part.Kind == KeyDescriptor
	switch {
	case wants && name == "":
		return part, "write " + word + ":NAME"
	case !wants && named:
		return part, "write " + word
	case part.Kind == KeyHeader:
		part.Name = v.headerName(name)
	}
	return part, ""
}

// joinKey writes parts as the key of a rule with several.
func joinKey(parts []string) string {
	var key []byte
	for i, part := range parts {
		if i > 0 {
			key = append(key, keySeparator)
		}
		from := len(key)
		key = escapePart(append(key, part...), from)
	}
	return string(key)
}

// splitKey takes a key of several parts apart.
func splitKey(key string) []string {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(key); i++ {
		switch {
		case key[i] == keyEscape && i+1 < len(key):
			i++
			part.WriteByte(key[i])
		case key[i] == keySeparator:
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(key[i])
		}
	}
	return append(parts, part.String())
}
