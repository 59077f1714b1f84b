package rule

import (
	"fmt"
	"testing"
)

// What a set says it does not read changes nothing about a request: neither its rules and keys nor its class.
func TestSetsSayWhatTheyRead(t *testing.T) {
	for _, c := range []struct {
		doc   string
		paths bool
	}{
		{"rules: []", false},
		{"rules: [{id: r, keyBy: apikey, limit: 1, window: 1s}]", false},
		{"rules: [{id: r, keyBy: endpoint, limit: 1, window: 1s}]", false}, // which is all paths
		{"rules: [{id: r, scope: {hosts: [a], methods: [GET]}, keyBy: ip, limit: 1, window: 1s}]", false},
		{"rules: [{id: r, scope: /a, limit: 1, window: 1s, mode: off}]", false},
		{"rules: [{id: r, scope: /a, limit: 1, window: 1s}]", true},
		{"rules: [{id: r, scope: /A, pathCase: insensitive, limit: 1, window: 1s}]", true},
		{"rules: [{id: r, limit: 1, window: 1s}, {id: s, scope: {paths: [/a/**], hosts: [a]}, keyBy: endpoint, limit: 1, window: 1s}]", true},
		{"rules: [{id: r, limit: 1, window: 1s}]\nclasses: [{class: critical, scope: /a}]", true},
		{"rules: [{id: r, limit: 1, window: 1s}]\nclasses: [{class: critical, scope: {hosts: [a]}}]", false},
	} {
		set := parsed(t, c.doc)
		if set.ReadsPath() != c.paths {
			t.Errorf("%s\nreads paths: %t, want %t", c.doc, set.ReadsPath(), c.paths)
		}
		if same := subject(set, "") == subject(set, "/a"); same == c.paths {
			t.Errorf("%s\na path changes something: %t, want %t", c.doc, !same, c.paths)
		}
	}
}

// subject is all that a set makes of a request for a path.
func subject(set *Set, path string) string {
	req := Request{Method: "GET", Host: "a", Path: path, APIKey: "k"}
	text := []byte(set.ClassOf(&req).String())
	for _, m := range set.Match(&req, nil) {
		key, status := m.Rule.AppendKey(nil, &req)
		text = fmt.Append(text, " ", m.Rule.ID, " ", string(key), " ", status)
	}
	return string(text)
}
