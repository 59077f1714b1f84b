package cases

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leaseway/leaseway/rule"
)

// Load reads the case file at path, and the rule file that it may name. An
// error of the type Errors lists all that is wrong with either.
func Load(path string) (*File, error) {
	src, err := readBounded(path)
	if err != nil {
		return nil, err
	}

	return Parse(path, src, func(name string) (string, []byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}

		text, err := readBounded(name)

		return name, text, err
	})
}

// readBounded reads a file that is no larger than a rule document may be.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}

	if info.IsDir() || info.Size() > rule.MaxDocument {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, rule.MaxDocument)
	}

	return os.ReadFile(path) //nolint:gosec // whoever runs the tests names the file
}

// Parse reads a case file in YAML or JSON, and calls it name in problems. open
// reads the file that rulesFile names, and returns what to call that.
func Parse(name string, src []byte, open func(name string) (string, []byte, error)) (*File, error) {
	problems := Errors{}
	doc := &document{file: name, src: src, problems: &problems}

	file := &File{Name: name}
	if root := doc.load(); root != nil {
		file.read(value{doc: doc, node: doc.open(root)}, open)
	}

	if len(problems) > 0 {
		problems.inOrder()

		return nil, problems
	}

	return file, nil
}

func (f *File) read(root value, open func(string) (string, []byte, error)) {
	top, ok := root.entries(append([]string{"rules", "rulesFile", "tests"}, beside()...)...)
	if !ok {
		return
	}

	base := readRules(root, top, open)

	tests, ok := top["tests"]
	if !ok {
		root.fail("has no tests", "write tests: and a list of them")

		return
	}

	names := map[string]int{}

	for _, item := range tests.list() {
		t := &Test{Line: item.node.Line, Holders: 1}
		t.read(item, base)
		f.Tests = append(f.Tests, t)

		if line, twice := names[t.Name]; twice && t.Name != "" {
			item.fail(fmt.Sprintf("the name %s is taken by the test at line %d", quote(t.Name), line), "give each test a name of its own")
		}

		names[t.Name] = t.Line
	}

	if len(f.Tests) == 0 && tests.node.Content == nil {
		tests.fail("has no test in it", "write at least one")
	}
}

func (t *Test) read(v value, base *rules) {
	e, ok := v.entries("name", "start", "holders", "latency", "tolerance", "steps")
	if !ok {
		return
	}

	if name, ok := e["name"]; !ok {
		v.fail("has no name", "write name: and what the test shows")
	} else if t.Name, ok = name.text(); ok && t.Name == "" {
		name.fail("is empty", "write what the test shows")
	}

	if start, ok := e["start"]; ok {
		t.Start = start.instant()
	}

	if holders, ok := e["holders"]; ok {
		n, _ := holders.whole(1, maxHolders)
		t.Holders = int(max(1, n))
	}

	if latency, ok := e["latency"]; ok {
		t.Latency, _ = latency.span(maxLatency)
	}

	tolerance := int64(0)
	if loose, ok := e["tolerance"]; ok {
		tolerance, _ = loose.whole(0, maxRequests)
	}

	steps, ok := e["steps"]
	if !ok {
		v.fail("has no steps", "write steps: and a list of them")

		return
	}

	t.readSteps(steps, tolerance, base)
}

func (t *Test) readSteps(v value, tolerance int64, base *rules) {
	items := v.list()
	if v.node.Content == nil {
		v.fail("has no step in it", "write at least one")
	}

	changed := map[*Step]change{}
	total := int64(0)

	for _, item := range items {
		s := &Step{Line: item.node.Line}

		c, ok := s.read(item, t.Holders, tolerance)
		if !ok {
			continue
		}

		if c.isSet() {
			changed[s] = c
		}

		if total += int64(s.Requests); total > maxRequests {
			item.fail(fmt.Sprintf("makes it more than %d requests in this test", maxRequests), "send fewer, or split the test")

			return
		}

		t.Steps = append(t.Steps, s)
	}

	slices.SortStableFunc(t.Steps, func(a, b *Step) int { return cmp.Compare(a.At, b.At) })

	if base == nil {
		return
	}

	// What a change leads to depends on those before it, in time.
	t.Rules = base.set

	for _, s := range t.Steps {
		if c, ok := changed[s]; ok {
			if base = base.changed(c); base == nil {
				return
			}

			s.Rules = base.set
		}
	}
}

// instant reads a moment, in µs since the Unix epoch.
func (v value) instant() int64 {
	text, ok := v.text()
	if !ok {
		return 0
	}

	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() < 1970 || at.Year() > 2200 {
		v.fail(quote(text)+" is no moment from 1970 to 2200", "write one such as 2026-01-01T00:00:00Z")

		return 0
	}

	return at.UnixMicro()
}
