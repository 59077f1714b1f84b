package rule

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// classes reads the list of classes.
func (v value) classes() []Classified {
	if v.node.Kind != yaml.SequenceNode {
		v.fail("is "+kindOf(v.node)+" where a list is expected", `write each class as an item: "- {class: test, apikeyPrefix: sk_test_}"`)
		return nil
	}
	var classes []Classified
	for _, item := range v.list(maxClasses) {
		if c, ok := item.class(); ok {
			classes = append(classes, c)
		}
	}
	v.reviewClasses(classes)
	return classes
}

// class reads one entry; false when it is no map.
func (v value) class() (c Classified, ok bool) {
	o, ok := v.object("class", "scope", "apikeyPrefix", "pathCase", "trailingSlash")
	if !ok {
		return c, false
	}
	if word, found := o.get("class"); found {
		c.Class = Class(word.choice(classWords()) + 1)
	} else if !o.has("class") {
		o.fail("has no class", "write class: and one of "+strings.Join(classWords(), ", "))
	}
	o.scope(&c.Scope)
	if prefix, found := o.get("apikeyPrefix"); found {
		c.APIKeyPrefixes = prefix.words(asWritten)
	}
	return c, true
}

// reviewClasses looks for entries that no request comes to.
func (v value) reviewClasses(classes []Classified) {
	if !v.d.reviewing || len(v.d.errs) > 0 {
		return
	}
	items, compared := v.list(maxClasses), 0
	for i := range classes {
		for j := range classes[:i] {
			first := &classes[j]
			if compared += 1 + len(first.Scope.Paths)*len(classes[i].Scope.Paths); compared > maxCovers {
				return // so large a list is not looked at to its end
			}
			keys := len(first.APIKeyPrefixes) == 0 || len(classes[i].APIKeyPrefixes) > 0 && !slices.ContainsFunc(classes[i].APIKeyPrefixes,
				func(prefix string) bool { return !first.hasKey(prefix) })
			if keys && first.Scope.covers(&classes[i].Scope) {
				items[i].doubt("is never looked at: every request of it has its class from line "+lineOf(items[j].node),
					"put the narrower one first, or leave it out")
				break
			}
		}
	}
}

// lineOf is where a node stands.
func lineOf(n *yaml.Node) string { return strconv.Itoa(n.Line) }
