package rule

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The bounds of what one rule may hold, in bytes and in items.
const (
	maxID          = 64
	maxName        = 256
	maxPath        = 2048
	maxDescription = 4096
	maxKeyText     = 4096
	maxKeyParts    = 8
	maxScopeItems  = 1024
)

// Parse reads a rule document in YAML or JSON; errors call it by the given name. The error is an Errors, with all that is wrong
// at once, and then there is no Set: a document is never half applied.
func Parse(name string, src []byte) (*Set, error) {
	return (&decoder{file: name, src: src}).parse()
}

// Extend reads a document as Parse does, to which belong rules that Parse has read before: its switches may name those, and in
// the Set all are ordered by id. Of a set of thousands a change is so read in a part of the time. It is for documents that are
// far below MaxDocument as a whole, which Extend does not see.
func Extend(name string, src []byte, known []*Rule) (*Set, error) {
	return (&decoder{file: name, src: src, known: known}).parse()
}

// parse reads the document, and gives a set or all errors.
func (d *decoder) parse() (*Set, error) {
	set := d.document()
	if len(d.errs) == 0 && (d.aliased || len(d.src) > MaxDocument/8) {
		d.fits(set)
	}
	if len(d.errs) > 0 {
		d.errs.inOrder()
		if len(d.errs) == maxErrors {
			d.errs = append(d.errs, &Error{File: d.file, Message: "there may be more errors", Fix: "correct these first"})
		}
		return nil, d.errs
	}
	return set, nil
}

// fits refuses a set whose canonical document would be too large to be read again.
func (d *decoder) fits(set *Set) {
	if canonical := set.Marshal(); len(canonical) > MaxDocument || marks(canonical) > maxMarks {
		d.report(&Error{File: d.file, Message: fmt.Sprintf("the rules take %d bytes once written out", len(canonical)),
			Fix: "use fewer aliases, or keep large sets of overrides in the rule store"})
	}
}

// document reads the top of a document. It goes on after an error, so that all of them come at once, and then gives no set.
func (d *decoder) document() *Set {
	root, failure := load(d.file, d.src)
	if failure != nil {
		d.report(failure)
		return nil
	}
	root, _ = d.open(root)
	top, ok := value{d: d, node: root}.object(topKeys()...)
	if !ok {
		return nil
	}
	headers := headersWords()
	set := &Set{Version: top.version(), Identity: defaultIdentity(), Headers: Headers(headers[top.choice("headers", headers)])}
	if v, ok := top.get("identity"); ok {
		set.Identity = v.identity()
	}
	if v, ok := top.get("classes"); ok {
		set.Classes = v.classes()
	}
	if v, ok := top.get("shedders"); ok {
		set.Shedders = v.shedders()
	}
	set.Rules = top.join(top.rules())
	if v, ok := top.get("switches"); ok {
		set.Switches = v.switches(set.Rules)
	}
	if len(d.errs) > 0 {
		return nil
	}
	return set.compile()
}

// topKeys are the keys of a document.
func topKeys() []string {
	return []string{"rules", "identity", "headers", "version", "classes", "shedders", "switches"}
}

// version reads the version that Marshal writes; a document that people write has none.
func (o *object) version() uint64 {
	if v, ok := o.get("version"); ok {
		n, _ := v.integer(0, math.MaxInt64)
		return uint64(n)
	}
	return 0
}

// rules reads all rules. A document without the key is refused: half of a file must not switch all limits off.
func (o *object) rules() []*Rule {
	v, found := o.entries["rules"]
	if !found {
		o.fail("has no rules", `write "rules: []" for none`)
		return nil
	}
	if v.node.Kind != yaml.SequenceNode {
		v.fail("is "+kindOf(v.node)+" where a list is expected", `write each rule as an item: "- id: …"`)
		return nil
	}
	items := v.list(MaxRules)
	rules := make([]*Rule, 0, len(items)+len(o.d.known))
	lines := make(map[string]int, len(items))
	for _, item := range items {
		r := item.rule()
		if r == nil {
			continue
		}
		if line, twice := lines[r.ID]; twice {
			item.fail("the id "+quote(r.ID)+fmt.Sprintf(" is taken by the rule at line %d", line), "give each rule an id of its own")
		} else if r.ID != "" {
			lines[r.ID] = item.node.Line
		}
		rules = append(rules, r)
	}
	return rules
}

// join puts those that were read before to the rules of the document.
func (o *object) join(rules []*Rule) []*Rule {
	if len(o.d.known) == 0 {
		return rules
	}
	rules = append(rules, o.d.known...)
	if len(rules) > MaxRules {
		o.fail(fmt.Sprintf("has %d rules", len(rules)), fmt.Sprintf("at most %d fit", MaxRules))
	}
	slices.SortFunc(rules, func(a, b *Rule) int { return strings.Compare(a.ID, b.ID) })
	for i, r := range rules[1:] {
		if r.ID == rules[i].ID && r.ID != "" {
			o.fail("the id "+quote(r.ID)+" is taken by a rule that was read before", "give each rule an id of its own")
		}
	}
	return rules
}

// identity reads where attributes come from; what is not said keeps its default.
func (v value) identity() Identity {
	id := defaultIdentity()
	o, ok := v.object("apikey", "user")
	if !ok {
		return id
	}
	if keys, ok := o.get("apikey"); ok {
		id.APIKey = nil
		for _, item := range keys.list(maxKeyParts) {
			if text, ok := item.text(maxName); ok && strings.EqualFold(text, "bearer") {
				id.APIKey = append(id.APIKey, Credential{Bearer: true})
			} else if ok {
				id.APIKey = append(id.APIKey, Credential{Header: item.headerName(text)})
			}
		}
	}
	if user, ok := o.get("user"); ok {
		if u, ok := user.object("header", "trusted"); ok {
			id.User = u.userSource()
		}
	}
	return id
}

// userSource reads which header names the user, and whether it is believed.
func (o *object) userSource() UserSource {
	var source UserSource
	if v, ok := o.get("header"); ok {
		if text, ok := v.text(maxName); ok {
			source.Header = v.headerName(text)
		}
	} else {
		o.fail("names no header", "write header: X-User, or leave user out")
	}
	if v, ok := o.get("trusted"); ok {
		source.Trusted = v.boolean()
	}
	return source
}
