package rulespec

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/rule"
)

var update = flag.Bool("update", false, "write the generated files")

func TestGeneratedFilesAreCurrent(t *testing.T) {
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]byte{"../../schema/leaseway.schema.json": schema, "../../docs/rules.md": Page()} {
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date (%v): run make generate and commit it", path, err)
		}
	}
}

func compiled(tb testing.TB) *jsonschema.Schema {
	tb.Helper()
	text, err := Schema()
	if err != nil {
		tb.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaURL, doc); err != nil {
		tb.Fatal(err)
	}
	schema, err := c.Compile(SchemaURL)
	if err != nil {
		tb.Fatal(err)
	}
	return schema
}

// agree asks the schema and the parser about a document; both are nil when it is right.
func agree(tb testing.TB, schema *jsonschema.Schema, src string) (bySchema, byParser error) {
	tb.Helper()
	var doc any
	if err := yaml.Unmarshal([]byte(src), &doc); err != nil {
		tb.Fatalf("%v in\n%s", err, src)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		tb.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	_, byParser = rule.Parse("doc", []byte(src))
	return schema.Validate(value), byParser
}

func TestSchemaTakesWhatTheParserTakes(t *testing.T) {
	schema := compiled(t)
	for _, src := range []string{
		"rules: []",
		"rules: [{id: a, limit: 5, window: 1m}]",
		"rules: [{id: 12, limit: 1_000, windowSec: 60, scope: /v1/**, keyBy: [user, 'header:x-a', 'descriptor:Δ x']}]",
		"rules: [{id: a, block: true}, {id: b, block: true, limit: 0, window: 1s}]",
		"rules: [{id: a, algorithm: fixed_window, limit: 5, window: 1d, timeZone: Europe/Berlin}, {id: b, algorithm: fixed_window, limit: 5, window: 1mo}]",
		"rules: [{id: a, algorithm: sliding_log, limit: 10000, window: 1h30m}, {id: b, algorithm: leaky_bucket, limit: 5, window: 1.5s, burst: 9}]",
		"rules: [{id: a, limit: 5, window: 1m, scope: {paths: [/a, '/b/{c}'], methods: get, hosts: '*.example.com', headers: {x-plan: [free, 1]}, descriptors: {d: true}}}]",
		"rules: [{id: a, limit: 5, window: 1m, keyBy: [user, ip], overrides: [{key: [a, 10.0.0.1], limit: 9, lease: {ttl: 1s}}]}]",
		"rules: [{id: a, limit: 5, window: 1m, keyBy: user, overrides: [{key: 5, burst: 9}], mode: off, normalize: [trim, nfc], cost: 'header:X-Cost', rollout: 100}]",
		"rules: [{id: a, limit: 5, window: 1m, fallback: {limit: 1, window: 1s, burst: 2}, missing: deny, slack: 3, ipv6Prefix: 48, pathCase: insensitive}]",
		"rules: [{id: a, algorithm: concurrency, limit: 5}, {id: b, algorithm: concurrency, limit: 5, queue: {size: 9, wait: 2s}, lease: {ttl: 3s}}]",
		"{rules: [], headers: ietf, version: 7, identity: {apikey: [x-key, bearer], user: {header: X-User, trusted: true}}}",
		"{rules: [], identity: {apikey: bearer}}",
		"{rules: [], shedders: {worker: {mode: off, high: 80%, low: 60%, rise: 1s, fall: 5s, stale: 2s, inFlight: 200, queueWait: 50ms}, fleet: {reserve: 30%, capacity: workers, mode: shadow}}}",
		"{rules: [], shedders: {worker: {}, fleet: {capacity: 500}}}",
		"rules: [{id: a, limit: 5, window: 1m, rollout: 12.5, before: {limit: 9, burst: 20, mode: shadow, lease: {ttl: 1s}, slack: 1, onUnavailable: local, fallback: {limit: 1, window: 1s}}}, {id: b, limit: 5, window: 1m, rollout: 0, before: {block: true}}]",
		"{rules: [{id: a, block: true}], switches: {all: on, rules: {a: off}, limiters: {rate: {off: true, until: 2026-12-01T00:00:00Z, reason: r}, fleet: off, worker: on, concurrency: {off: false}}}}",
		"{rules: [], classes: [{class: test, apikeyPrefix: [sk_test_, rk_test_]}, {class: critical, scope: {paths: /v1/charges, methods: POST}}, {class: read, scope: /a, pathCase: insensitive}]}",
	} {
		if bySchema, byParser := agree(t, schema, src); bySchema != nil || byParser != nil {
			t.Errorf("%s\nschema: %v\nparser: %v", src, bySchema, byParser)
		}
	}
}

func TestSchemaRefusesWhatTheParserRefuses(t *testing.T) {
	schema := compiled(t)
	const quota = "limit: 5, window: 1m"
	for _, src := range []string{
		"{}", "rules: {}", "rules: [a]", "{rules: [], rule: []}", "{rules: [], shedders: []}", "{rules: [], shedders: {workers: {}}}", "{rules: [], shedders: {worker: {high: 0.9}}}", "{rules: [], shedders: {fleet: {capacity: all}}}", "{rules: [], headers: all}",
		"rules: [{limit: 5, window: 1m}]", "rules: [{id: 'a b', limit: 5, window: 1m}]", "rules: [{id: a, window: 1m}]", "rules: [{id: a, limit: 5}]",
		"rules: [{id: a, limit: 0, window: 1m}]", "rules: [{id: a, limit: 1.5, window: 1m}]", "rules: [{id: a, limit: '5', window: 1m}]", "rules: [{id: a, limit: -5, window: 1m}]",
		"rules: [{id: a, limit: 5, window: 60}]", "rules: [{id: a, limit: 5, window: 1 fortnight}]", "rules: [{id: a, limit: 5, window: 1m, windowSec: 60}]",
		"rules: [{id: a, block: true, limit: 5}]", "rules: [{id: a, block: true, burst: 5}]",
		"rules: [{id: a, " + quota + ", limt: 5}]", "rules: [{id: a, " + quota + ", burst: 0}]", "rules: [{id: a, " + quota + ", algorithm: token-bucket}]",
		"rules: [{id: a, " + quota + ", algorithm: fixed_window, burst: 9}]", "rules: [{id: a, " + quota + ", timeZone: Europe/Berlin}]",
		"rules: [{id: a, " + quota + ", algorithm: fixed_window, timeZone: Europe/Berlin}]", "rules: [{id: a, limit: 5, window: 1mo}]",
		"rules: [{id: a, algorithm: sliding_log, limit: 10001, window: 1m}]", "rules: [{id: a, " + quota + ", rollout: 101}]", "rules: [{id: a, " + quota + ", rollout: half}]", "rules: [{id: a, " + quota + ", rollout: 5, before: {keyBy: ip}}]", "rules: [{id: a, " + quota + ", afterLoss: half}]",
		"rules: [{id: a, algorithm: concurrency, limit: 5, window: 1s}]", "rules: [{id: a, algorithm: concurrency}]",
		"rules: [{id: a, algorithm: concurrency, limit: 5, burst: 6}]", "rules: [{id: a, algorithm: concurrency, limit: 5, queue: {size: 1}}]",
		"rules: [{id: a, " + quota + ", queue: {size: 1, wait: 1s}}]", "rules: [{id: a, algorithm: concurrency, limit: 5, slack: 1}]",
		"rules: [{id: a, " + quota + ", keyBy: usr}]", "rules: [{id: a, " + quota + ", keyBy: []}]", "rules: [{id: a, " + quota + ", scope: v1}]",
		"rules: [{id: a, " + quota + ", scope: {path: /v1}}]", "rules: [{id: a, " + quota + ", cost: 0}]", "rules: [{id: a, " + quota + ", mode: shadowed}]",
		"rules: [{id: a, " + quota + ", onUnavailable: deny, fallback: {limit: 1, window: 1s}}]", "rules: [{id: a, " + quota + ", fallback: {limit: 1}}]",
		"rules: [{id: a, " + quota + ", keyBy: user, overrides: [{limit: 5}]}]", "rules: [{id: a, " + quota + ", keyBy: user, overrides: {acme: 5}}]",
		"{rules: [], classes: {class: test}}", "{rules: [], classes: [{scope: /v1}]}", "{rules: [], classes: [{class: urgent}]}", "{rules: [], classes: [{class: read, scope: v1}]}",
		"{rules: [], switches: off}", "{rules: [], switches: {all: yes}}", "{rules: [], switches: {all: {until: 2026-12-01T00:00:00Z}}}", "{rules: [], switches: {limiters: {leaky: off}}}",
		"{rules: [], identity: {user: {trusted: true}}}", "{rules: [], identity: {apikey: ['a b']}}",
	} {
		if bySchema, byParser := agree(t, schema, src); bySchema == nil || byParser == nil {
			t.Errorf("%s\nschema: %v\nparser: %v", src, bySchema, byParser)
		}
	}
}

// home is a document with one field of one map set, and what the rest of the document must be for it to be right.
func home(path, field, value string) string {
	set := field + ": " + value
	switch path {
	case "":
		if field == "rules" {
			return "rules: []"
		}
		return "{rules: [], " + set + "}"
	case "identity":
		return "{rules: [], identity: {" + set + "}}"
	case "identity.user":
		if field != "header" {
			set += ", header: X-User"
		}
		return "{rules: [], identity: {user: {" + set + "}}}"
	case "before":
		set = "rollout: 50, before: {" + set + "}"
	case "classes":
		if field != "class" {
			set += ", class: read"
		}
		return "{rules: [], classes: [{" + set + "}]}"
	case "switches":
		return "{rules: [], switches: {" + set + "}}"
	case "switches.limiters":
		return "{rules: [], switches: {limiters: {" + set + "}}}"
	case "switches.all", "switches.limiters.rate", "switches.limiters.concurrency", "switches.limiters.fleet", "switches.limiters.worker":
		if field != "off" {
			set += ", off: true"
		}
		if path == "switches.all" {
			return "{rules: [], switches: {all: {" + set + "}}}"
		}
		return "{rules: [], switches: {limiters: {" + path[len("switches.limiters."):] + ": {" + set + "}}}}"
	case "shedders":
		return "{rules: [], shedders: {" + set + "}}"
	case "shedders.worker", "shedders.fleet":
		switch field {
		case "low":
			set += ", high: 100%"
		case "high":
			set += ", low: 1%"
		case "rise":
			set += ", fall: 10m"
		case "fall":
			set += ", rise: 100ms"
		}
		return "{rules: [], shedders: {" + path[len("shedders."):] + ": {" + set + "}}}"
	case "scope":
		set = "scope: {" + set + "}"
	case "entries":
		if field != "key" {
			set += ", key: k"
		}
		set = "scope: {entries: [{" + set + "}]}"
	case "lease":
		set = "lease: {" + set + "}"
	case "queue":
		if field != "size" {
			set += ", size: 5"
		}
		if field != "wait" {
			set += ", wait: 1s"
		}
		return "rules: [{id: a, algorithm: concurrency, limit: 5, queue: {" + set + "}}]"
	case "fallback", "overrides":
		if field != "limit" {
			set += ", limit: 1000000" // one token a µs: the largest burst fits
		}
		if path == "overrides" && field != "key" {
			set += ", key: k"
		}
		if path == "fallback" && !strings.HasPrefix(field, "window") {
			set += ", window: 1s"
		}
		set = map[string]string{"fallback": "fallback: {" + set + "}", "overrides": "keyBy: user, overrides: [{" + set + "}]"}[path]
	}
	if path == "rules" && (value == "concurrency" || field == "queue") {
		return "rules: [{id: a, limit: 5, " + set + "}]"
	}
	lines := "id: a, " + set
	if path != "" && field == "id" {
		lines = set
	}
	switch {
	case path == "rules" && field == "algorithm":
		lines += ", limit: 10000"
	case path != "rules" || field != "limit":
		lines += ", limit: 1000000"
	}
	if path != "rules" || !strings.HasPrefix(field, "window") {
		lines += ", window: 1s"
	}
	return "rules: [{" + lines + "}]"
}

// pathOf names the map that a field of the map at path is.
func pathOf(path string, f Field) string {
	for _, top := range []string{"identity", "switches", "shedders"} {
		if strings.HasPrefix(path, top) {
			return path + "." + f.Name
		}
	}
	return f.Name
}

// eachField calls do for every field of the table, with the name of the map that it is in.
func eachField(path string, fields []Field, do func(path string, f Field)) {
	for _, f := range fields {
		do(path, f)
		name := pathOf(path, f)
		if len(f.Value.Fields) > 0 && (path != "overrides") {
			eachField(name, f.Value.Fields, do)
		}
	}
}

// Every field of the table is one that the parser knows, its bounds and words are the parser's, and its default changes nothing.
func TestTheTableIsTheParsers(t *testing.T) {
	seen := 0
	takes := func(path, field, value string) bool {
		_, err := rule.Parse("doc", []byte(home(path, field, value)))
		return err == nil
	}
	eachField("", Document(), func(path string, f Field) {
		seen++
		for _, w := range f.Value.Allowed {
			if !takes(path, f.Name, w) {
				t.Errorf("%s.%s: %s is refused, and the table allows it", path, f.Name, w)
			}
		}
		if f.Value.Low != "" && f.Name != "rollout" {
			checkBounds(t, f.Value, func(value string) bool { return takes(path, f.Name, value) })
		}
		if f.Default == "" {
			return
		}
		with, err := rule.Parse("doc", []byte(home(path, f.Name, f.Default)))
		if err != nil {
			t.Errorf("%s.%s: the default is refused: %v", path, f.Name, err)
			return
		}
		// The canonical document leaves out what is the default.
		if name := strconv.Quote(f.Name) + ":"; bytes.Contains(with.Marshal(), []byte(name)) {
			t.Errorf("%s.%s: %s is not the parser's default: %s", path, f.Name, f.Default, with.Marshal())
		}
	})
	if seen < 50 {
		t.Errorf("only %d fields were looked at", seen)
	}
}

// checkBounds asks for both bounds and for what is just beyond them. A lower burst or limit may make another part wrong.
func checkBounds(t *testing.T, v Value, takes func(string) bool) {
	t.Helper()
	beyond := map[string]string{"1ms": "999us", "10ms": "9999us", "366d": "8785h", "10m": "601s",
		"1%": "0%", "2%": "1%", "99%": "100%", "100%": "101%", "100ms": "99ms", "1s": "999ms"}
	low, errLow := strconv.ParseInt(v.Low, 10, 64)
	high, errHigh := strconv.ParseInt(v.High, 10, 64)
	below, above := beyond[v.Low], beyond[v.High]
	if errLow == nil && errHigh == nil {
		below, above = strconv.FormatInt(low-1, 10), strconv.FormatUint(uint64(high)+1, 10)
	}
	for value, want := range map[string]bool{v.Low: true, v.High: true, below: false, above: false} {
		if got := takes(value); got != want {
			t.Errorf("%s from %s to %s: the parser takes %s: %v, want %v", v.Type, v.Low, v.High, value, got, want)
		}
	}
}

// The parser lists the keys that it knows when a slip is like none of them; the table must have the same.
func TestTheParserKnowsNoOtherField(t *testing.T) {
	eachMap := map[string][]Field{"": Document()}
	eachField("", Document(), func(path string, f Field) {
		if len(f.Value.Fields) > 0 {
			name := pathOf(path, f)
			eachMap[name] = f.Value.Fields
		}
	})
	for path, fields := range eachMap {
		_, err := rule.Parse("doc", []byte(home(path, "qqqqqqqqqqqqqqqqqqqqqqqqq", "1")))
		var errs rule.Errors
		if !errors.As(err, &errs) {
			t.Fatalf("%q: %v", path, err)
		}
		known := map[string]bool{}
		for _, e := range errs {
			if names, found := strings.CutPrefix(e.Fix, "known: "); found {
				for name := range strings.SplitSeq(names, ", ") {
					known[name] = true
				}
			}
		}
		for _, f := range fields {
			if !known[f.Name] {
				t.Errorf("%q: the parser does not know %s", path, f.Name)
			}
			delete(known, f.Name)
		}
		if len(known) > 0 {
			t.Errorf("%q: the table lacks %v", path, known)
		}
	}
}
