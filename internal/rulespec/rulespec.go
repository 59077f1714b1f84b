// Package rulespec is the table of everything that a rule document may say: one row a field, with its values, its default
// and a sentence about it. From it come schema/leaseway.schema.json, for editors, and docs/rules.md, for people:
//
//	Document() ─┬─▶ Schema() ─▶ schema/leaseway.schema.json, leaseway rules schema
//	            └─▶ Page()   ─▶ docs/rules.md
//
// The parser is package rule, which does not need the table: it answers with the place and the fix, and knows what no schema
// can say. Tests hold the two against each other, field by field. The generated files are written by
// go test ./internal/rulespec -update, and the same test without the flag fails when they are out of date.
package rulespec

// SchemaURL is where the schema of the newest version can be had, for the first line of a document.
const SchemaURL = "https://raw.githubusercontent.com/leaseway/leaseway/main/schema/leaseway.schema.json"

// Modeline is the first line that tells editors with yaml-language-server the schema of a document.
const Modeline = "# yaml-language-server: $schema=" + SchemaURL

// Field is one key of a map in the document.
type Field struct {
	Name  string
	Value Value
	// Default is what holds when the field is left out, as JSON; empty when it is required or nothing holds.
	Default string
	// Doc is a sentence or two, in Markdown.
	Doc string
	// Required says that the map cannot do without it.
	Required bool
}

// Value is what a field may hold.
type Value struct {
	// Type is how the page calls it, such as "whole number".
	Type string
	// Allowed are the words that it may be, if only these.
	Allowed []string
	// Low and High are the bounds as the document writes them; empty without bounds.
	Low, High string
	// Fields are the keys of a map, or of each map in a list.
	Fields []Field

	schema object
}

// object is a JSON object.
type object = map[string]any

// list is a JSON array.
type list = []any

// Document is the table, from the top of the document down.
func Document() []Field {
	return []Field{
		{Name: "rules", Required: true, Value: mapsOf(ruleFields()), Doc: "The rules, each with an `id` of its own. `rules: []` is none; a document without the key is refused."},
		{Name: "identity", Value: mapOf(identityFields()), Doc: "Where the doors find out who is calling."},
		{
			Name: "headers", Value: words("both", "ietf", "legacy", "none"), Default: `"both"`,
			Doc: "Which response headers tell callers about their budget: `RateLimit` and `RateLimit-Policy` (`ietf`), `X-RateLimit-*` (`legacy`), both or none.",
		},
		{Name: "version", Value: whole("0", "9223372036854775807"), Default: "0", Doc: "Written by Leaseway when it numbers a document; leave it out."},
		{
			Name: "classes", Value: mapsOf(classFields()),
			Doc: "How much a request matters: `critical`, `write`, `read` or `test`, in that order. The first entry that agrees decides; where none does, a method that changes nothing (GET, HEAD, OPTIONS, TRACE) is a read, and any other, or none, a write.",
		},
		{Name: "shedders", Value: mapOf(sheddersFields()), Doc: "What is refused when the system itself is in trouble."},
		{Name: "switches", Value: mapOf(switchesFields()), Doc: "Kill switches: what is not to decide for now."},
	}
}
