package envoyimport

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The parts of the rule document that are written, in the order in which people read them.
type (
	ruleText struct {
		ID        string    `yaml:"id"`
		About     string    `yaml:"description,omitempty"`
		Scope     scopeText `yaml:"scope"`
		KeyBy     []string  `yaml:"keyBy,omitempty,flow"`
		Missing   string    `yaml:"missing,omitempty"`
		Algorithm string    `yaml:"algorithm,omitempty"`
		Limit     int64     `yaml:"limit,omitempty"`
		Window    string    `yaml:"window,omitempty"`
		Block     bool      `yaml:"block,omitempty"`
		Mode      string    `yaml:"mode,omitempty"`
	}
	scopeText struct {
		Domain  string      `yaml:"domain"`
		Entries []entryText `yaml:"entries,omitempty"`
	}
	entryText struct {
		Key    string   `yaml:"key"`
		Value  string   `yaml:"value,omitempty"`
		Except []string `yaml:"except,omitempty,flow"`
	}
)

// writer makes a rule of each limit.
type writer struct {
	*reader

	domain string
	rules  []ruleText
	ids    map[string]bool
}

// step is a descriptor on the way down, with those beside it.
type step struct {
	descriptor *descriptor
	level      []*descriptor
}

// level makes the rules of one level and all below it.
func (w *writer) level(above []step, level []*descriptor) {
	for _, d := range level {
		way := append(slices.Clip(above), step{d, level})
		if d.limit != nil && !d.limit.unlimited {
			w.rule(way, d)
		}

		w.level(way, d.children)
	}
}

// rule makes the rule of a limit. An unlimited one needs none: the others leave out what is its.
func (w *writer) rule(way []step, d *descriptor) {
	rule := ruleText{Scope: scopeText{Domain: w.domain}}
	seen := map[string]bool{}

	for _, s := range way {
		rule.Scope.Entries = append(rule.Scope.Entries, entryText{Key: s.descriptor.key, Value: s.descriptor.value, Except: s.before()})

		if free := s.descriptor.value == "" || s.descriptor.wild() && !s.descriptor.shared; free {
			if seen[s.descriptor.key] {
				w.fail(s.descriptor.line, fmt.Sprintf("the key %s is there twice on the way down, "+
					"and a budget by its second value is what no rule can say", s.descriptor.key))
			}

			rule.KeyBy = append(rule.KeyBy, "descriptor:"+s.descriptor.key)
		}

		seen[s.descriptor.key] = true
	}

	if len(rule.KeyBy) > 0 && d.limit.requests > 0 {
		rule.Missing = "shared" // an empty value is a value there
	}

	if d.limit.requests > 0 {
		rule.Algorithm, rule.Limit, rule.Window = "fixed_window", d.limit.requests, windowText(d.limit.window)
	} else {
		rule.Block, rule.KeyBy = true, nil
	}

	if d.shadow || d.quota {
		rule.Mode = "shadow"
	}

	rule.ID = w.id(way, d)
	w.rules = append(w.rules, rule)
}

// before is what is asked first on the same level: for a key alone all values of it, for a wildcard those values and the
// wildcards before it that can be meant as well.
func (s step) before() (values []string) {
	d := s.descriptor
	if d.value != "" && !d.wild() {
		return nil
	}

	earlier := true

	for _, o := range s.level {
		if o == d {
			earlier = false

			continue
		}

		if o.key != d.key || o.value == "" {
			continue
		}

		prefix, other := strings.TrimSuffix(d.value, "*"), strings.TrimSuffix(o.value, "*")

		switch {
		case d.value == "",
			!o.wild() && strings.HasPrefix(o.value, prefix),
			o.wild() && earlier && (strings.HasPrefix(other, prefix) || strings.HasPrefix(prefix, other)):
			values = append(values, o.value)
		}
	}

	return values
}

// id is the limit's name, if a rule can have it, or else the way down to it.
func (w *writer) id(way []step, d *descriptor) string {
	text := d.limit.name
	if text == "" {
		parts := []string{w.domain}

		for _, s := range way {
			parts = append(parts, s.descriptor.key)
			if s.descriptor.value != "" {
				parts = append(parts, s.descriptor.value)
			}
		}

		text = strings.Join(parts, "_")
	}

	const most = 56 // of 64, so that a number fits behind

	id := strings.Map(func(r rune) rune {
		if r < 128 && (r == '.' || r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z') {
			return r
		}

		return '-'
	}, text)
	id = id[:min(len(id), most)]

	unique := id
	for n := 2; w.ids[unique]; n++ {
		unique = id + "-" + strconv.Itoa(n)
	}

	w.ids[unique] = true

	if d.limit.name != "" && unique != d.limit.name {
		w.note(d.limit.line, fmt.Sprintf("the name %q cannot be a rule's id: it is %s, also in answers", d.limit.name, unique))
	}

	return unique
}

// windowText is a window as people write it.
func windowText(window time.Duration) string {
	const day = 24 * time.Hour

	switch {
	case window%day == 0:
		return strconv.FormatInt(int64(window/day), 10) + "d"
	case window%time.Hour == 0:
		return strconv.FormatInt(int64(window/time.Hour), 10) + "h"
	case window%time.Minute == 0:
		return strconv.FormatInt(int64(window/time.Minute), 10) + "m"
	default:
		return strconv.FormatInt(int64(window/time.Second), 10) + "s"
	}
}

// text is the rule document, with what was left out at its head.
func (w *writer) text(name string) ([]byte, error) {
	var b bytes.Buffer

	fmt.Fprintf(&b, "# Imported from %q of envoyproxy/ratelimit.\n", path.Base(name))

	for _, n := range w.notes {
		fmt.Fprintf(&b, "# Line %d: %s\n", n.Line, strings.Join(strings.Fields(n.Message), " "))
	}

	rules := w.rules
	if rules == nil { // a limit that a request brings along counts there in every domain that has a document
		rules = []ruleText{{
			ID: "domain", About: "Names the domain, in which nothing is limited but what requests say themselves.",
			Scope: scopeText{Domain: w.domain}, Limit: 1, Window: "1s", Mode: "off",
		}}
	}

	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2) //nolint:mnd // as people write it

	if err := encoder.Encode(map[string]any{"rules": rules}); err != nil {
		return nil, err
	}

	return b.Bytes(), encoder.Close()
}
