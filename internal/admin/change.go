package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// Document is a part of the rule document, as JSON.
type Document struct{ json.RawMessage }

// Schema says where the document is described.
func (Document) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true,
		Description: "In canonical JSON; schema/leaseway.schema.json and docs/rules.md describe it.",
	}
}

// Change is one field that a write changes.
type Change struct {
	Field  string `doc:"The field of the document."           json:"field"`
	Before any    `doc:"Its value before; left out for none." json:"before,omitempty"`
	After  any    `doc:"Its value after; left out for none."  json:"after,omitempty"`
}

// Warning is what is allowed, and perhaps not meant.
type Warning struct {
	Field   string `doc:"The field of the document; empty for the rule as a whole." json:"field,omitempty"`
	Message string `doc:"What is doubtful."                                         json:"message"`
	Fix     string `doc:"What to write instead, unless it is meant."                json:"fix,omitempty"`
	Line    int    `doc:"The line of the text that was sent."                       json:"line,omitempty"`
}

// parseRule reads the document of one rule, in JSON, whose id may be left out. The error is a *Problem.
func parseRule(id string, body []byte) (*rule.Rule, []Warning, error) {
	text := bytes.TrimSpace(body)
	if len(text) == 0 || text[0] != '{' || text[len(text)-1] != '}' || !json.Valid(text) {
		return nil, nil, unfitDocument([]ProblemItem{{
			Location: bodyPlace, Message: "is no JSON object", Fix: `write one such as {"limit": 100, "windowSec": 60, "keyBy": "apikey"}`,
		}})
	}

	var keys map[string]json.RawMessage
	_ = json.Unmarshal(text, &keys) // it is a valid object

	// What is added goes to lines and places where it does not move those of the sender.
	var doc bytes.Buffer

	doc.WriteString("{\"rules\":[\n")
	doc.Write(body[:bytes.LastIndexByte(body, '}')])

	if _, has := keys["id"]; !has {
		if len(keys) > 0 {
			doc.WriteByte(',')
		}

		fmt.Fprintf(&doc, "\"id\":%s", strconv.Quote(id))
	}

	doc.WriteString("}\n]}")

	set, doubts, err := rule.Review("rule", doc.Bytes())
	if err != nil {
		return nil, nil, unfitDocument(ofOneRule(err))
	}

	if got := set.Rules[0].ID; got != id {
		return nil, nil, unfit("body.id", fmt.Sprintf("is %q, and the path says %q", got, id),
			"leave it out, or write the same; a rule's id is its identity and cannot be changed")
	}

	warnings := make([]Warning, 0, len(doubts))
	for _, doubt := range doubts {
		warnings = append(warnings, Warning{Field: ofRule(doubt.Field), Message: doubt.Message, Fix: doubt.Fix, Line: doubt.Line - 1})
	}

	return set.Rules[0], warnings, nil
}

// ofOneRule are the errors of a document that is one rule of its sender, from its second line on.
func ofOneRule(err error) []ProblemItem {
	errs, ok := err.(rule.Errors) //nolint:errorlint // Parse says that it is
	if !ok {
		return []ProblemItem{{Location: bodyPlace, Message: err.Error()}}
	}

	items := itemsOf(errs, bodyPlace, 1)
	for i := range items {
		items[i].Location = bodyPlace
		if field := ofRule(errs[i].Field); field != "" {
			items[i].Location += "." + field
		}
	}

	return items
}

// ofRule is a field of the only rule of a document, as the rule has it.
func ofRule(field string) string {
	return strings.TrimPrefix(strings.TrimPrefix(field, "rules[0]"), ".")
}

// documentOf is a rule in canonical JSON, without the version, which is beside it; nil for no rule.
func documentOf(r *rule.Rule) (json.RawMessage, error) {
	if r == nil {
		return nil, nil
	}

	bare := *r
	bare.Version = 0

	rows, err := rulestore.Canonical(&rule.Set{Rules: []*rule.Rule{&bare}})
	if err != nil {
		return nil, err
	}

	return rows[0].Document, nil
}

// changesBetween are the fields in which two documents differ, ordered by name.
func changesBetween(before, after json.RawMessage) []Change {
	was, is := fieldsOf(before), fieldsOf(after)
	changes := []Change{}

	for _, name := range sortedKeys(was, is) {
		if old, now := was[name], is[name]; !bytes.Equal(old, now) {
			changes = append(changes, Change{Field: name, Before: valueOf(old), After: valueOf(now)})
		}
	}

	return changes
}

func fieldsOf(doc json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(doc, &fields) != nil && doc != nil {
		fields = map[string]json.RawMessage{"value": doc} // no object
	}

	delete(fields, "version")

	return fields
}

func sortedKeys(maps ...map[string]json.RawMessage) []string {
	var names []string

	for _, m := range maps {
		for name := range m {
			names = append(names, name)
		}
	}

	slices.Sort(names)

	return slices.Compact(names)
}

// valueOf keeps a value as it is written.
func valueOf(text json.RawMessage) any {
	if text == nil {
		return nil
	}

	return text
}
