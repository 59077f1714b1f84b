package rule

import (
	"net/textproto"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// scope reads which requests a rule, or a class, is about.
func (o *object) scope(s *Scope) {
	s.PathCase = PathCase(o.choice("pathCase", pathCaseWords()))
	s.TrailingSlash = TrailingSlash(o.choice("trailingSlash", trailingSlashWords()))
	if v, ok := o.get("scope"); ok {
		v.scope(s)
	}
	s.methods = newMethodSet(s.Methods)
}

// scope reads a path, a list of paths, or a map of all that a scope may have.
func (v value) scope(s *Scope) {
	if v.node.Value != "" || len(v.node.Content) > 0 && v.node.Kind != yaml.MappingNode {
		v.paths(s)
		return
	}
	o, ok := v.object("paths", "methods", "hosts", "headers", "descriptors", "domain", "entries")
	if !ok {
		return
	}
	if paths, ok := o.get("paths"); ok {
		paths.paths(s)
	}
	if methods, ok := o.get("methods"); ok {
		s.Methods = methods.words(func(text string) (string, string) {
			return strings.ToUpper(text), whenNot(isToken(text), "write a method, such as GET")
		})
	}
	if hosts, ok := o.get("hosts"); ok {
		s.Hosts = hosts.words(func(text string) (string, string) {
			host := strings.TrimSuffix(strings.ToLower(text), ".")
			return host, whenNot(isHost(host), `write a name without a port, such as api.example.com or *.example.com`)
		})
	}
	if headers, ok := o.get("headers"); ok {
		s.Headers = headers.attributes(value.headerName)
	}
	if descriptors, ok := o.get("descriptors"); ok {
		s.Descriptors = descriptors.attributes(value.descriptorName)
	}
	if domain, ok := o.get("domain"); ok {
		s.Domain, _ = domain.text(maxName)
	}
	if entries, ok := o.get("entries"); ok {
		s.Entries = entries.entries()
	}
}

// paths reads patterns, and compiles them on the way.
func (v value) paths(s *Scope) {
	s.Paths = v.words(func(text string) (string, string) {
		p, err := parsePattern(text)
		if err != nil {
			return text, err.Error()
		}
		s.patterns = append(s.patterns, p)
		return text, ""
	})
	v.reviewPaths(s)
}

// entries reads a descriptor as a whole. An entry of which only the name matters may be that name alone.
func (v value) entries() []EntryScope {
	items := v.list(maxEntries)
	if len(items) == 0 {
		v.fail("is an empty list", "leave it out: then it does not matter")
	}
	list := make([]EntryScope, 0, len(items))
	for _, item := range items {
		var e EntryScope
		if item.node.Kind != yaml.MappingNode {
			e.Key, _ = item.text(maxName)
			e.Key = item.descriptorName(e.Key)
		} else if o, ok := item.object("key", "value", "except"); ok {
			o.entry(&e)
		}
		e.compile()
		list = append(list, e)
	}
	return list
}

// entry reads one entry that says more than its name.
func (o *object) entry(e *EntryScope) {
	key, found := o.get("key")
	if !found {
		if o.lacks("key") {
			o.fail("has no key", "write key: NAME, as the proxy sends it")
		}
		return
	}
	e.Key, _ = key.text(maxName)
	e.Key = key.descriptorName(e.Key)
	if values, ok := o.get("value"); ok {
		e.Values = values.words(asWritten)
	}
	if except, ok := o.get("except"); ok {
		e.Except = except.words(asWritten)
	}
}

// descriptorName refuses names that people could not tell apart.
func (v value) descriptorName(name string) string {
	if strings.ContainsFunc(name, unicode.IsControl) {
		v.fail(quote(name)+" has a control character", "write a name that people can read")
	}
	return name
}

// words reads a list of texts, or one text, each once. The function gives a text's canonical form, and how to write it if it is wrong.
func (v value) words(canonical func(text string) (word, fix string)) []string {
	items := v.list(maxScopeItems)
	if len(items) == 0 {
		v.fail("is an empty list", "leave it out: then it does not matter")
	}
	words := make([]string, 0, len(items))
	for _, item := range items {
		text, ok := item.text(maxPath)
		if !ok {
			continue
		}
		word, fix := canonical(text)
		switch {
		case fix != "":
			item.fail(quote(text)+" cannot be read", fix)
		case contains(words, word):
			item.fail(quote(text)+" is in the list twice", "keep one of them")
		default:
			words = append(words, word)
		}
	}
	return words
}

// attributes reads a map of names with the values that agree.
func (v value) attributes(canonical func(value, string) string) []Attribute {
	if v.node.Kind != yaml.MappingNode {
		v.fail("is "+kindOf(v.node)+" where a map is expected", "write NAME: value, or NAME: [value, value]")
		return nil
	}
	if len(v.node.Content) == 0 {
		v.fail("is an empty map", "leave it out: then it does not matter")
	}
	if len(v.node.Content) > 2*maxKeyParts {
		v.fail("has too many names", "at most 8 fit")
		return nil
	}
	var list []Attribute
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		keyNode, ok := v.d.open(v.node.Content[i])
		content, ok2 := v.d.open(v.node.Content[i+1])
		if !ok || !ok2 {
			return list
		}
		key := value{d: v.d, node: keyNode, field: v.field}
		text, ok := key.text(maxName)
		if !ok {
			continue
		}
		name := canonical(key, text)
		for _, a := range list {
			if a.Name == name {
				key.fail(quote(text)+" is set twice", "list its values: ["+"one, two]")
			}
		}
		values := value{d: v.d, node: content, field: v.field + "." + shorten(text)}
		list = append(list, Attribute{Name: name, Values: values.words(asWritten)})
	}
	// Sorted, because the canonical document is: a set and the one read back from it are equal.
	slices.SortFunc(list, func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// asWritten is the canonical form of texts that have no other.
func asWritten(text string) (word, fix string) { return text, "" }

// headerName gives a header's canonical name.
func (v value) headerName(name string) string {
	if !isToken(name) {
		v.fail(quote(name)+" is no name of a header", "write a name, such as X-API-Key")
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// whenNot gives the fix of a text that is not right.
func whenNot(right bool, fix string) string {
	if right {
		return ""
	}
	return fix
}

// isToken says whether a text can name a method or a header (RFC 9110, token).
func isToken(text string) bool {
	return text != "" && len(text) <= maxName && strings.Trim(text, idBytes+"!#$%&'*+^`|~") == ""
}

// isHost says whether a text can be a host of a scope: a name, an address, or "*." and a name.
func isHost(text string) bool {
	name := strings.TrimPrefix(text, "*.")
	if name == "" || len(text) > 253 {
		return false
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		name = text[1 : len(text)-1]
		return name != "" && strings.Trim(name, "0123456789abcdef:.") == ""
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == "" && !strings.HasPrefix(name, ".")
}
