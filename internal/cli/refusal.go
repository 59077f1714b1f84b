package cli

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/server"
)

// refused is an answer of the server that is no success, told in the words of the command line: by flags and commands, not by
// fields and routes.
type refused struct {
	server  string // whom was asked
	status  string
	shown   bool // a token was
	plain   bool // it speaks TLS, and was asked without
	problem admin.Problem
}

// Error says what is wrong, and what to do.
func (r *refused) Error() string {
	detail := inCommands(r.problem.Detail)

	switch {
	case detail == "" && r.plain:
		return fmt.Sprintf("the server at %s speaks TLS: write https:// before its address", r.server)
	case detail == "":
		return fmt.Sprintf("the server at %s answered %s: is it a Leaseway server, and is its admin API at that URL?", r.server, r.status)
	case r.problem.Status == http.StatusUnauthorized && !r.shown:
		return fmt.Sprintf("the server at %s asks for a token: show one by --token-file, LEASEWAY_TOKEN or leaseway context "+
			"(leaseway token create makes one)", r.server)
	case r.problem.Status == http.StatusUnauthorized:
		return fmt.Sprintf("the server at %s does not take the token that was shown: %s", r.server, detail)
	case r.problem.Status == http.StatusForbidden:
		return "that is not allowed: " + detail
	case r.problem.Status >= http.StatusInternalServerError:
		return fmt.Sprintf("the server at %s cannot do that: %s", r.server, detail)
	}

	return detail
}

// inTerms is err as the user of a command thinks of it: what the server has against a field is said of the flag or argument that
// filled it, and is then something that was asked for wrongly.
func inTerms(cmd *cobra.Command, err error) error {
	no, ok := err.(*refused) //nolint:errorlint // what wraps it has put it into its own words
	if !ok || no.problem.Status != http.StatusUnprocessableEntity && no.problem.Status != http.StatusBadRequest {
		return err
	}

	wrong := &server.UsageError{}

	for _, one := range no.problem.Errors {
		name := termOf(cmd, one.Location)
		if name == "" {
			return err
		}

		text := name + ": " + inCommands(one.Message)
		if one.Fix != "" {
			text += " (" + inCommands(one.Fix) + ")"
		}

		wrong.Problems = append(wrong.Problems, text)
	}

	if len(wrong.Problems) == 0 {
		return err
	}

	return wrong
}

// termOf is the flag, with its value, or the argument of a command that fills a field of a call; "" for none.
func termOf(cmd *cobra.Command, location string) string {
	// What has another name here. An argument stands as the help has it.
	other := map[string]string{
		"leaseTtl": "lease", "expires": "for", "expiresInSec": "for", "forSec": "for", "version": "to", "rollout": "to",
		"steps": "auto", "plan": "auto", "everySec": "every", "maxRefused": "max-refused", "endPlan": "end",
		"ruleId": "RULE", "rule": "RULE", "tokenId": "ID", "what": "WHAT", "key": "KEY", "mode": "MODE",
	}

	field := location[strings.LastIndexByte(location, '.')+1:]
	field, _, _ = strings.Cut(field, "[")

	for _, name := range []string{field, other[field]} {
		flag := cmd.Flags().Lookup(name)

		switch {
		case name == "" || flag == nil || !flag.Changed:
		case flag.Value.Type() == "bool":
			return "--" + name
		default:
			return "--" + name + " " + flag.Value.String()
		}
	}

	for _, name := range []string{other[field], field} {
		if name != "" && name == strings.ToUpper(name) && strings.Contains(cmd.Use, name) {
			return name
		}

		if name != "" && cmd.Flags().Lookup(name) != nil {
			return "--" + name
		}
	}

	return ""
}

// inCommands says by commands and flags what the API says by routes and queries.
func inCommands(text string) string {
	text = strings.NewReplacer(
		"send force=true&reason=WHY", "add --force --reason WHY",
		"force=true", "--force",
		"?rule=ID", "--rule ID",
		", or GET /admin/rules, shows them", " shows them",
		"GET /admin/rules lists them", "leaseway rules list shows them",
		"GET /admin/tokens lists them", "leaseway token list shows them",
		"GET /admin/switches lists", "leaseway kill lists",
		"DELETE the rule", "leaseway rules delete",
		"send the header Authorization: Bearer TOKEN with one of the server's tokens",
		"it is for something else here, or for some rules only",
	).Replace(text)

	return regexp.MustCompile(`GET /admin/rules/([^/ ]+)/versions`).ReplaceAllString(text, "leaseway rules history $1")
}
