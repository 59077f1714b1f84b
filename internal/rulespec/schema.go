package rulespec

import "encoding/json"

// Schema is the JSON Schema (draft 2020-12) of the document, indented, with a line break at its end. It refuses nothing that
// the parser takes; the parser refuses more, such as an override whose key has too few parts.
func Schema() ([]byte, error) {
	top := mapSchema(Document())
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["$id"] = SchemaURL
	top["title"] = "Leaseway rule document"
	text, err := json.MarshalIndent(top, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// mapSchema is the schema of a map with these keys and no others.
func mapSchema(fields []Field) object {
	properties, required := object{}, list{}
	for _, f := range fields {
		properties[f.Name] = f.schema()
		if f.Required {
			required = append(required, f.Name)
		}
	}
	schema := object{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	if conditions := conditionsOf(properties); len(conditions) > 0 {
		schema["allOf"] = conditions
	}
	return schema
}

// schema is the value's schema with what an editor shows beside it.
func (f Field) schema() object {
	more := object{"description": f.Doc}
	if f.Default != "" {
		more["default"] = json.RawMessage(f.Default)
	}
	return f.Value.with(more).schema
}

// conditionsOf gives what holds between the keys of a map.
func conditionsOf(properties object) list {
	has := func(name string) bool { _, ok := properties[name]; return ok }
	both := func(a, b string) object { return object{"not": object{"required": list{a, b}}} }
	var conditions list
	if has("window") && has("windowSec") {
		conditions = append(conditions, both("window", "windowSec"))
	}
	switch {
	case has("id"):
		conditions = append(conditions, ruleConditions()...)
	case has("limit") && !has("key") && !has("mode"): // what neither a rule nor another version lends its window
		conditions = append(conditions, needsWindow())
	}
	return conditions
}

// needsWindow asks for one of the two ways to write a window.
func needsWindow() object {
	return object{"anyOf": list{object{"required": list{"window"}}, object{"required": list{"windowSec"}}}}
}

// ruleConditions are those of a rule.
func ruleConditions() list {
	is := func(name string, value any) object {
		return object{"properties": object{name: object{"const": value}}, "required": list{name}}
	}
	windows := list{"fixed_window", "sliding_window", "sliding_log", "concurrency"}
	concurrency := is("algorithm", "concurrency")
	unbursted := object{"properties": object{"algorithm": object{"enum": windows}}, "required": list{"algorithm"}}
	calendar := object{"properties": object{"window": object{"enum": list{"1d", "1mo"}}}, "required": list{"window"}}
	return list{
		object{
			"if":   is("block", true),
			"then": object{"properties": object{"limit": object{"const": 0}, "burst": false}},
			"else": object{"required": list{"limit"}, "properties": object{"limit": object{"minimum": 1}}},
		},
		object{
			"if": object{"anyOf": list{is("block", true), concurrency}}, "else": needsWindow(),
		},
		object{
			"if":   concurrency,
			"then": object{"properties": object{"window": false, "windowSec": false, "timeZone": false, "slack": false, "fallback": false}},
			"else": object{"properties": object{"queue": false}},
		},
		object{"if": unbursted, "then": object{"properties": object{"burst": false}}},
		object{"if": is("algorithm", "sliding_log"), "then": object{"properties": object{"limit": object{"maximum": 10_000}}}},
		object{"if": object{"required": list{"timeZone"}}, "then": object{"allOf": list{is("algorithm", "fixed_window"), calendar}}},
		object{"if": is("window", "1mo"), "then": is("algorithm", "fixed_window")},
		object{
			"if":   object{"required": list{"fallback"}},
			"then": object{"properties": object{"onUnavailable": object{"const": "local"}}},
		},
	}
}
