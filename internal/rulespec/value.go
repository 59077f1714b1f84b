package rulespec

import (
	"maps"
	"slices"
	"strconv"
)

// The constructors of values give the type's name and its schema together, so that the page and the schema cannot disagree.

// spanPattern is a span of time, which a schema can check for its form only.
const spanPattern = `([0-9]+(\.[0-9]+)?(w|d|h|m|s|ms|us))+`

// words is one of the words.
func words(allowed ...string) Value {
	// A bare off is false to readers of YAML 1.1, and the parser takes both.
	enum := make(list, 0, len(allowed)+1)
	for _, w := range allowed {
		enum = append(enum, w)
		if w == "off" {
			enum = append(enum, false)
		}
	}
	return Value{Type: "word", Allowed: allowed, schema: object{"enum": enum}}
}

// whole is a whole number from low to high.
func whole(low, high string) Value {
	return Value{Type: "whole number", Low: low, High: high, schema: object{"type": "integer", "minimum": number(low), "maximum": number(high)}}
}

// number is a decimal number of the table as JSON.
func number(text string) any {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil // a test reads every bound
	}
	return n
}

// span is a span of time from low to high.
func span(low, high string) Value {
	return Value{Type: "span of time", Low: low, High: high, schema: object{"type": "string", "pattern": "^" + spanPattern + "$"}}
}

// boolean is true or false.
func boolean() Value { return Value{Type: "true or false", schema: object{"type": "boolean"}} }

// text is text of at most so many bytes. A number is text as it is written.
func text(most int) Value {
	return Value{Type: "text", schema: object{"type": list{"string", "number", "boolean"}, "minLength": 1, "maxLength": most}}
}

// pattern is text of a form, called so on the page.
func pattern(name, expression string) Value {
	return Value{Type: name, schema: object{"type": "string", "pattern": expression}}
}

// oneOrMore is a value or a list of them.
func oneOrMore(v Value) Value {
	return Value{
		Type: v.Type + ", or a list", Allowed: v.Allowed,
		schema: object{"anyOf": list{v.schema, object{"type": "array", "items": v.schema, "minItems": 1, "uniqueItems": true}}},
	}
}

// either is one value or another.
func either(a, b Value) Value {
	return Value{
		Type: a.Type + " or " + b.Type, Low: a.Low, High: a.High, Fields: slices.Concat(a.Fields, b.Fields),
		schema: object{"anyOf": list{a.schema, b.schema}},
	}
}

// mapOf is a map with these keys and no others.
func mapOf(fields []Field) Value {
	return Value{Type: "map", Fields: fields, schema: mapSchema(fields)}
}

// mapsOf is a list of such maps.
func mapsOf(fields []Field) Value {
	return Value{Type: "list of maps", Fields: fields, schema: object{"type": "array", "items": mapSchema(fields)}}
}

// named is a map from names, which are free, to one or more values.
func named() Value {
	return Value{Type: "map of names to values", schema: object{
		"type": "object", "minProperties": 1, "maxProperties": 8, "additionalProperties": oneOrMore(text(2048)).schema,
	}}
}

// with adds to a value's schema what its form alone does not say.
func (v Value) with(more object) Value {
	schema := object{}
	maps.Copy(schema, v.schema)
	maps.Copy(schema, more)
	v.schema = schema
	return v
}
