package cli

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/server"
)

// parsed is a command with its flags as somebody typed them.
func parsed(t *testing.T, line ...string) *cobra.Command {
	t.Helper()

	cmd, rest, err := newRoot().Find(line)
	if err == nil {
		cmd.SetOut(io.Discard)

		err = cmd.ParseFlags(rest)
	}

	if err != nil {
		t.Fatal(err)
	}

	return cmd
}

// What the server has against a field is said of what was typed.
func TestRefusalsSpeakOfFlagsAndArguments(t *testing.T) {
	for _, row := range []struct {
		line           []string
		location, want string
	}{
		{[]string{"overrides", "set", "r", "k", "--limit", "7"}, "body.limit", "--limit 7"},
		{[]string{"overrides", "set", "r", "k", "--lease", "1ms"}, "body.leaseTtl", "--lease 1ms"},
		{[]string{"overrides", "set", "r", "k", "--for", "1h"}, "body.expires", "--for 1h0m0s"},
		{[]string{"overrides", "set", "r", "k", "--expires", "2020"}, "body.expires", "--expires 2020"},
		{[]string{"overrides", "set", "r", "k"}, "body.limit", "--limit"},
		{[]string{"overrides", "set", "r", "k"}, "body.key", "KEY"},
		{[]string{"overrides", "list", "r", "--key", "k"}, "query.key", "--key k"},
		{[]string{"rules", "rollout", "r", "--to", "101"}, "body.rollout", "--to 101"},
		{[]string{"rules", "rollout", "r", "--auto", "9,1"}, "body.plan.steps[1]", "--auto [9,1]"},
		{[]string{"rules", "rollback", "r", "--to", "9"}, "body.version", "--to 9"},
		{[]string{"rules", "mode", "r", "on"}, "body.mode", "MODE"},
		{[]string{"rules", "get", "r", "--version", "9"}, "path.version", "--version 9"},
		{[]string{"kill", "rule:r", "--for", "1h"}, "body.forSec", "--for 1h0m0s"},
		{[]string{"kill", "rule:r"}, "path.what", "WHAT"},
		{[]string{"token", "create", "--name", "a", "--role", "king"}, "body.role", "--role king"},
		{[]string{"keys", "refund", "r", "k"}, "body.tokens", "--tokens"},
		{[]string{"rules", "list"}, "body.somethingNew", ""},
	} {
		if got := termOf(parsed(t, row.line...), row.location); got != row.want {
			t.Errorf("%s, %s: got %q, want %q", strings.Join(row.line, " "), row.location, got, row.want)
		}
	}
}

func TestARefusedFieldIsAWrongArgument(t *testing.T) {
	cmd := parsed(t, "overrides", "set", "r", "k", "--limit", "7")
	no := &refused{problem: admin.Problem{Status: http.StatusUnprocessableEntity, Detail: "limit: is odd", Errors: []admin.ProblemItem{
		{Location: "body.limit", Message: "is odd", Fix: "write an even one"},
	}}}

	wrong, ok := errors.AsType[*server.UsageError](inTerms(cmd, no))
	if !ok || len(wrong.Problems) != 1 || wrong.Problems[0] != "--limit 7: is odd (write an even one)" {
		t.Errorf("got %v", wrong)
	}

	// Of what nobody typed the server's own words are better than none.
	no.problem.Errors[0].Location = "body.other"
	if got := inTerms(cmd, no); got.Error() != "limit: is odd" {
		t.Errorf("got %q", got)
	}

	no.problem.Status = http.StatusNotFound
	if _, ok := errors.AsType[*server.UsageError](inTerms(cmd, no)); ok {
		t.Error("what is not there was asked for rightly")
	}
}

func TestRefusalsSpeakOfCommands(t *testing.T) {
	for status, row := range map[int]struct{ detail, want string }{
		http.StatusConflict:           {"write less; or send force=true&reason=WHY", "write less; or add --force --reason WHY"},
		http.StatusNotFound:           {"no such version (GET /admin/rules/a-b/versions lists them)", "no such version (leaseway rules history a-b lists them)"},
		http.StatusUnauthorized:       {"send the header Authorization", "the server at http://here asks for a token: show one by --token-file"},
		http.StatusForbidden:          {"yours begin with a-", "that is not allowed: yours begin with a-"},
		http.StatusServiceUnavailable: {"the store is gone", "the server at http://here cannot do that: the store is gone"},
		http.StatusBadGateway:         {"", "the server at http://here answered 502: is it a Leaseway server"},
	} {
		no := &refused{server: "http://here", status: "502", problem: admin.Problem{Status: status, Detail: row.detail}}
		if got := no.Error(); !strings.HasPrefix(got, row.want) {
			t.Errorf("%d: got %q, want %q…", status, got, row.want)
		}
	}
}

// A time or a number of nothing is not the same as none said: kill --for 0s would be for ever.
func TestNothingIsRefused(t *testing.T) {
	for _, line := range [][]string{
		{"kill", "all", "--for", "0s"}, {"kill", "all", "--for", "-1h"}, {"overrides", "set", "r", "k", "--limit", "0"},
		{"audit", "--limit", "-3"}, {"rules", "rollback", "r", "--to", "0"}, {"rules", "rollout", "r", "--every", "0s"},
		{"token", "create", "--name", "a", "--role", "admin", "--for", "-1s"},
	} {
		if err := aboveZero(parsed(t, line...)); err == nil || !strings.Contains(err.Error(), line[len(line)-2]) {
			t.Errorf("%s: got %v", strings.Join(line, " "), err)
		}
	}

	if err := aboveZero(parsed(t, "kill", "all", "--for", "1h")); err != nil {
		t.Error(err)
	}
}
