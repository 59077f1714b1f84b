package rulestore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// documents are what a row of a rule may hold, good and bad; %s is the name of the row.
func documents() []string {
	return []string{
		`{"id":"%s","limit":1,"window":"1s"}`,
		`{"id":"%s","version":3,"scope":"/v1/things","keyBy":"apikey","limit":2,"window":"1m"}`,
		`{"id":"%s","mode":"shadow","limit":3,"window":"1m"}`,
		`{"id":"%s","limit":"many","window":"1m"}`,
		`{"id":"%s","limit":1,`,
		`{"id":"other than %s","limit":1,"window":"1s"}`,
		`{"id":"%[1]s","limit":1,"window":"1s"},{"id":"%[1]s-2","limit":1,"window":"1s"}`,
		"{\"id\":\"%s\",\"limit\":1,\"window\":\"1s\"} # \n",
	}
}

// What remembers gives what somebody gives who reads everything anew, whatever was changed by whom and in which order.
func TestAMemoryReadsAsOneWithoutAny(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	switches := []string{"", `{}`, `{"rules":{"c":"off"}}`, `{"all":"off","rules":{"a":"off","c":"off"}}`, `{"rules":`}
	var memory rulestore.Memory
	rows := map[string]string{}
	settings := map[string]string{}
	for step := range 300 {
		name := string(rune('a' + rnd.IntN(6)))
		switch n := rnd.IntN(12); {
		case n == 0:
			delete(rows, name)
		case n == 1:
			settings["switches"] = switches[rnd.IntN(len(switches))]
		case n < 9: // mostly good ones, or nothing would be remembered
			rows[name] = fmt.Sprintf(documents()[rnd.IntN(3)], name)
		default:
			rows[name] = fmt.Sprintf(documents()[rnd.IntN(len(documents()))], name)
		}
		head := rulestore.Head{Rules: uint64(step + 1)}
		got := told(memory.Assemble(head, rowsOf(rows), rowsOf(settings)))
		if want := told(new(rulestore.Memory).Assemble(head, rowsOf(rows), rowsOf(settings))); got != want {
			t.Fatalf("step %d: of %q and %q it makes\n%s\nwant\n%s", step, rows, settings, got, want)
		}
	}
}

// rowsOf are rows ordered by name; an empty document is none.
func rowsOf(documents map[string]string) (rows []rulestore.Row) {
	for name, document := range documents {
		if document != "" {
			rows = append(rows, rulestore.Row{Name: name, Version: 3, Document: []byte(document)})
		}
	}
	slices.SortFunc(rows, func(a, b rulestore.Row) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

// told is all that matters of a state, and which of its rules a request is subject to.
func told(s *rulestore.State) string {
	bad := []string{}
	for _, row := range s.Bad {
		bad = append(bad, row.Place)
	}
	matched := []string{}
	for _, m := range s.Set.Match(&rule.Request{APIKey: "k", Method: "GET", Path: "/v1/things"}, nil) {
		matched = append(matched, m.Rule.ID)
	}
	return fmt.Sprintf("%s\n%s %v %v\nbad %v\nmatched %v", s.Set.Marshal(), s.Settings, s.Head, s.Written, bad, matched)
}

// A rule that nobody changed is not read again: it is the same one.
func TestAMemoryKeepsWhatDidNotChange(t *testing.T) {
	var memory rulestore.Memory
	rows := map[string]string{"a": fmt.Sprintf(documents()[0], "a"), "b": fmt.Sprintf(documents()[0], "b")}
	before := memory.Assemble(rulestore.Head{Rules: 1}, rowsOf(rows), nil).Set
	rows["b"] = fmt.Sprintf(documents()[1], "b")
	after := memory.Assemble(rulestore.Head{Rules: 2}, rowsOf(rows), nil).Set
	if before.Rule("a") != after.Rule("a") || before.Rule("b") == after.Rule("b") || after.Rule("b").Limit != 2 || after.Version != 2 {
		t.Errorf("of\n%s\nit made\n%s", before.Marshal(), after.Marshal())
	}
}
