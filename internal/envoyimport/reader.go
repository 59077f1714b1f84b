package envoyimport

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/internal/spelling"
	"github.com/leaseway/leaseway/rule"
)

// maxDepth is how deep descriptors may be nested: a rule has as many entries.
const maxDepth = 8

// descriptor is one level of the document.
type descriptor struct {
	line          int
	key, value    string
	limit         *limit
	shadow, quota bool
	shared        bool // one budget for all values of a wildcard
	children      []*descriptor
}

// limit is a rate_limit.
type limit struct {
	line      int
	requests  int64
	window    time.Duration
	unlimited bool
	name      string
}

// wild says whether a descriptor stands for all values that begin as its own.
func (d *descriptor) wild() bool { return strings.HasSuffix(d.value, "*") }

// reader notes what is wrong, and what has no counterpart.
type reader struct {
	errors, notes []Note
	names         map[string]int // of limits, and the lines
	replaced      []replacement
	count         int // of descriptors
}

// replacement is a name in a replaces.
type replacement struct {
	name string
	line int
}

func (r *reader) fail(line int, message string) { r.errors = append(r.errors, Note{line, message}) }
func (r *reader) note(line int, message string) { r.notes = append(r.notes, Note{line, message}) }

// document reads the top.
func (r *reader) document(src []byte) (domain string, tree []*descriptor) {
	root := r.load(src)
	if root == nil {
		return "", nil
	}

	r.each(root, inDocument, func(key, value *yaml.Node) {
		switch key.Value {
		case "domain":
			domain = r.scalar(value)
		case keyDescriptors:
			tree = r.descriptors(value, 1)
		default:
			r.unknown(key, inDocument)
		}
	})

	if domain == "" {
		r.fail(root.Line, "the document has no domain")
	}

	return domain, tree
}

// each calls do with each entry of a map, and refuses a key that is there twice.
func (r *reader) each(node *yaml.Node, what string, do func(key, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		r.fail(node.Line, what+" is no map")

		return
	}

	seen := map[string]int{}

	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if first, twice := seen[key.Value]; twice {
			r.fail(key.Line, fmt.Sprintf("%s is there twice, first at line %d, and the later one would win; keep one", key.Value, first))

			continue
		}

		seen[key.Value] = key.Line

		if value.Kind == yaml.AliasNode || key.Value == "<<" {
			r.fail(value.Line, "aliases are not read here; write out what they stand for")

			continue
		}

		do(key, value)
	}
}

// Keys that are in several parts of a document.
const (
	keyDescriptors = "descriptors"
	keyMetadata    = "metadata"
	keyName        = "name"
)

// The parts of a document.
const (
	inDocument   = "the document"
	inDescriptor = "a descriptor"
	inRateLimit  = "rate_limit"
)

// keysOf are the keys that there are in what.
func keysOf(what string) []string {
	switch what {
	case inDocument:
		return []string{"domain", keyDescriptors}
	case inDescriptor:
		return []string{
			"key", "value", "rate_limit", keyDescriptors,
			"shadow_mode", "quota_mode", "share_threshold", "detailed_metric", "value_to_metric", keyMetadata,
		}
	case inRateLimit:
		return []string{"requests_per_unit", "unit", "unlimited", keyName, "replaces", keyMetadata}
	default:
		return []string{keyName} // in replaces
	}
}

// unknown refuses a key of what, and says where it belongs, which one was meant, or which there are.
func (r *reader) unknown(key *yaml.Node, what string) {
	var hint string

	known := keysOf(what)

	switch meant := spelling.Closest(key.Value, known); {
	case slices.Contains(keysOf(inDescriptor)[4:], key.Value):
		hint = "it belongs beside the descriptor's key, and does nothing here"
	case slices.Contains(keysOf(inRateLimit), key.Value) && what == inDescriptor:
		hint = "it belongs into rate_limit"
	case meant != "":
		hint = "did you mean " + meant + "?"
	default:
		hint = "its keys are " + strings.Join(known, ", ")
	}

	r.fail(key.Line, fmt.Sprintf("%s is not a key of %s; %s", key.Value, what, hint))
}

// notYAML says where a document cannot be read, which the reader of YAML has in the words of its error.
func (r *reader) notYAML(err error) {
	line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")

	if at, rest, found := strings.Cut(text, ": "); found {
		if n, err := strconv.Atoi(strings.TrimPrefix(at, "line ")); err == nil && n > 0 {
			line, text = n, rest
		}
	}

	r.fail(line, text+"; correct the YAML around this line")
}

// scalar reads a text or a number as it is written.
func (r *reader) scalar(node *yaml.Node) string {
	if node.Kind != yaml.ScalarNode {
		r.fail(node.Line, "a text is expected here; write one value, and no list or map")

		return ""
	}

	if node.ShortTag() == "!!null" {
		return ""
	}

	return node.Value
}

func (r *reader) boolean(node *yaml.Node) bool {
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!bool" {
		r.fail(node.Line, "true or false is expected here")
	}

	return strings.EqualFold(node.Value, "true")
}

// descriptors reads one level.
func (r *reader) descriptors(node *yaml.Node, depth int) (level []*descriptor) {
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" {
		return nil
	}

	if node.Kind != yaml.SequenceNode {
		r.fail(node.Line, "descriptors is no list")

		return nil
	}

	if depth > maxDepth {
		r.fail(node.Line, fmt.Sprintf("descriptors are nested deeper than %d, which no rule can say", maxDepth))

		return nil
	}

	for _, item := range node.Content {
		r.count++
		if r.count > rule.MaxRules {
			if r.count == rule.MaxRules+1 {
				r.fail(item.Line, fmt.Sprintf("there are more than %d descriptors; split the document", rule.MaxRules))
			}

			return level
		}

		d := r.descriptor(item, depth)

		same := func(o *descriptor) bool { return o.key == d.key && o.value == d.value }
		if i := slices.IndexFunc(level, same); i >= 0 {
			text := strings.TrimSpace(d.key + " " + d.value)
			r.fail(d.line, fmt.Sprintf("the descriptor %s is there twice, first at line %d", text, level[i].line))
		}

		level = append(level, d)
	}

	return level
}

func (r *reader) descriptor(node *yaml.Node, depth int) *descriptor {
	d := &descriptor{line: node.Line}

	var (
		modes  []*yaml.Node // that only a limit can have
		shared *yaml.Node   // which is about limits below as well
	)

	r.each(node, inDescriptor, func(key, value *yaml.Node) {
		switch key.Value {
		case "key":
			d.key = r.scalar(value)
		case "value":
			d.value = r.scalar(value)
		case "rate_limit":
			d.limit = r.rateLimit(value)
		case keyDescriptors:
			d.children = r.descriptors(value, depth+1)
		case "shadow_mode":
			d.shadow = r.boolean(value)
			modes = append(modes, key)
		case "quota_mode":
			d.quota = r.boolean(value)
			modes = append(modes, key)
		case "share_threshold":
			d.shared, shared = r.boolean(value), key
		case "detailed_metric", "value_to_metric":
			if r.boolean(value) {
				r.note(key.Line, key.Value+" has no counterpart: metrics are by rule, and never by key")
			}
		case keyMetadata:
			r.note(key.Line, "metadata has no counterpart: answers name the rule and the reason")
		default:
			r.unknown(key, inDescriptor)
		}
	})

	switch {
	case d.key == "":
		r.fail(d.line, "a descriptor has no key")
	case strings.HasSuffix(d.key, "*") && d.value == "":
		r.fail(d.line, "a key that ends in * stands for many keys, which no rule can say; list them")
	}

	for _, key := range modes {
		if d.limit == nil {
			r.fail(key.Line, key.Value+" is beside no rate_limit, and does nothing here; move it to the descriptor that has the limit")
		}
	}

	switch {
	case d.shared && !d.wild():
		r.fail(d.line, "share_threshold is for values that end in *")
	case shared != nil && d.limit == nil && len(d.children) == 0:
		r.fail(shared.Line, "share_threshold is beside no rate_limit and above none, and does nothing here")
	}

	if d.quota {
		r.note(d.line, "quota_mode has no counterpart: the rule is in shadow mode, so that its descriptor is OK, too; "+
			"metadata names the rule")
	}

	return d
}

func (r *reader) rateLimit(node *yaml.Node) *limit {
	l := &limit{line: node.Line, requests: -1}
	unit, replaces := "", (*yaml.Node)(nil)

	r.each(node, inRateLimit, func(key, value *yaml.Node) {
		switch key.Value {
		case "requests_per_unit":
			n, err := strconv.ParseUint(r.scalar(value), 10, 32)
			if err != nil {
				r.fail(value.Line, "requests_per_unit is no whole number from 0 to 4294967295")
			}

			l.requests = int64(n)
		case "unit":
			unit = r.scalar(value)
		case "unlimited":
			l.unlimited = r.boolean(value)
		case keyName:
			l.name = r.scalar(value)
		case "replaces":
			replaces = value
		case keyMetadata:
			r.note(key.Line, "metadata has no counterpart: answers name the rule and the reason")
		default:
			r.unknown(key, inRateLimit)
		}
	})

	l.window = windowOf(unit)

	switch {
	case l.unlimited && unit != "":
		r.fail(l.line, "an unlimited rate_limit has no unit; leave one of the two out")
	case l.unlimited:
		r.note(l.line, "unlimited makes no rule: no request is refused for this descriptor, and none is counted")
	case l.requests < 0:
		r.fail(l.line, "rate_limit has no requests_per_unit, which would be 0 and refuse everything; write the number")
	case l.window == 0:
		r.fail(l.line, fmt.Sprintf("%q is no unit; write second, minute, hour, day, week, month or year", unit))
	}

	if l.name != "" {
		r.names[l.name] = l.line
	}

	if replaces != nil {
		r.replaces(replaces, l.name)
	}

	return l
}

// replaces reads the limits that do not count when this one does. Rules know no such thing: all that match apply.
func (r *reader) replaces(node *yaml.Node, own string) {
	if node.Kind != yaml.SequenceNode {
		r.fail(node.Line, "replaces is no list")

		return
	}

	var names []string

	for _, item := range node.Content {
		r.each(item, "an item of replaces", func(key, value *yaml.Node) {
			name := r.scalar(value)

			switch {
			case key.Value != keyName:
				r.unknown(key, "an item of replaces")
			case name == "":
				r.fail(value.Line, "replaces has an empty name")
			case name == own:
				r.fail(value.Line, fmt.Sprintf("replaces names %q, the limit itself", name))
			default:
				names = append(names, name)
				r.replaced = append(r.replaced, replacement{name, value.Line})
			}
		})
	}

	if len(names) > 0 {
		r.note(node.Line, fmt.Sprintf("replaces has no counterpart: %s applies as well when both descriptors are sent",
			strings.Join(names, ", ")))
	}
}

// windowOf is how long the windows of a unit are there: months of 30 days and years of 365. It is 0 for what is no unit.
func windowOf(unit string) time.Duration {
	const day = 24 * time.Hour

	return map[string]time.Duration{
		"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": day, "week": 7 * day, "month": 30 * day, "year": 365 * day,
	}[strings.ToLower(unit)]
}
