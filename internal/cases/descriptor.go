package cases

import (
	"fmt"

	"github.com/leaseway/leaseway/rule"
)

// maxEntries is how many entries a proxy's descriptor may have.
const maxEntries = 64

// describe reads what a proxy says of a request: its descriptors by name, or the one descriptor in its order, and its domain.
func (s *Step) describe(e entries) {
	if v, ok := e["descriptors"]; ok {
		s.Request.Descriptors = v.descriptors()
	}

	if v, ok := e["domain"]; ok {
		s.Request.Domain, _ = v.text()
	}

	if v, ok := e["entries"]; ok {
		s.Request.Entries = v.ordered()
	}
}

func (v value) descriptors() map[string]string {
	e, ok := v.entries()
	if !ok {
		return nil
	}

	descriptors := make(map[string]string, len(e))
	for name, entry := range e {
		descriptors[name], _ = entry.text()
	}

	return descriptors
}

// ordered reads the entries of a descriptor. One without a value has the empty one, as on the wire.
func (v value) ordered() (list []rule.Entry) {
	items := v.list()
	if len(items) > maxEntries {
		v.fail(fmt.Sprintf("has %d entries", len(items)), fmt.Sprintf("at most %d fit", maxEntries))
	}

	for _, item := range items {
		e, ok := item.entries("key", "value")
		if !ok {
			continue
		}

		var entry rule.Entry

		if key, found := e["key"]; found {
			entry.Key, _ = key.text()
		} else {
			item.fail("has no key", "write {key: NAME, value: VALUE}")
		}

		if content, found := e["value"]; found {
			entry.Value, _ = content.text()
		}

		list = append(list, entry)
	}

	return list
}
