package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/server"
	"github.com/leaseway/leaseway/rule"
)

// writing is the flags of commands that write.
type writing struct {
	remote

	reason        string
	dryRun, force bool
}

func (w *writing) addTo(cmd *cobra.Command, forces bool) {
	flags := cmd.Flags()
	flags.StringVar(&w.reason, "reason", "", "`why`, for those who read the audit")
	flags.BoolVar(&w.dryRun, "dry-run", false, "say what would be written, and write nothing")

	if forces {
		flags.BoolVar(&w.force, "force", false, "enforce at once although the setting requireRollout is on; with --reason")
	}

	w.remote.addTo(flags, true)
	completeForms(cmd)
}

// on adds what the flags say to a call.
func (w *writing) on(call apiCall) apiCall {
	return call.with("reason", w.reason, "dryRun", onlyTrue(w.dryRun), "force", onlyTrue(w.force))
}

func onlyTrue(b bool) string {
	if b {
		return "true"
	}

	return ""
}

// document is a file on its way to a server.
type document struct {
	writing

	file  string
	prune bool
}

func (d *document) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&d.file, "filename", "f", "", "the rule document, a YAML or JSON `file`, or - for the standard input")
	cmd.Flags().BoolVar(&d.prune, "prune", false, "delete the rules and parts that are not in the document, but for switches")
	d.writing.addTo(cmd, true)

	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err) // the flag is just above
	}
}

// unreadable is the error of a file that was named and cannot be read.
func unreadable(err error) error {
	return &server.UsageError{Problems: []string{"-f: " + withFix(err)}}
}

// namedInput is what errors call a file.
func namedInput(file string) string {
	if file == "-" {
		return "standard input"
	}

	return file
}

// read reads the file and checks it before it is sent: what is wrong with it is shown where it stands.
func (d *document) read(stdin io.Reader) ([]byte, error) {
	var (
		text []byte
		err  error
	)

	name := namedInput(d.file)
	if d.file == "-" {
		text, err = io.ReadAll(io.LimitReader(stdin, rule.MaxDocument+1))
	} else {
		text, err = readAtMost(d.file, rule.MaxDocument)
	}

	if err != nil {
		return nil, unreadable(err)
	}

	if _, err := rule.Parse(name, text); err != nil {
		wrong := &server.UsageError{Problems: []string{err.Error()}}

		if list, ok := errors.AsType[rule.Errors](err); ok {
			wrong.Problems = nil
			for _, one := range list {
				wrong.Problems = append(wrong.Problems, one.Error())
			}
		}

		return nil, wrong
	}

	return text, nil
}

// send applies the document, or tries to.
func (d *document) send(ctx context.Context, cmd *cobra.Command, c *client) (*admin.Applied, error) {
	text, err := d.read(cmd.InOrStdin())
	if err != nil {
		return nil, err
	}

	call := adminCall(http.MethodPut, "document").sendingText("application/yaml", bytes.NewReader(text))
	applied := &admin.Applied{}

	if err := c.do(ctx, d.on(call).with("prune", onlyTrue(d.prune)), applied); err != nil {
		return nil, atLines(err, namedInput(d.file))
	}

	return applied, nil
}

func newRulesApply() *cobra.Command {
	d := &document{}
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Apply a rule document to a server", Args: noArguments,
		Long: "Have the rules of a document, and what it has beside them, take the place of what the server has: all in one version, or\n" +
			"nothing. Other rules stay, unless --prune is said. To apply a document again changes nothing.",
		Example: "  leaseway rules apply -f rules.yaml --reason 'more for search'\n" +
			"  leaseway rules apply -f rules.yaml --dry-run",
		RunE: d.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			applied, err := d.send(ctx, cmd, c)
			if err != nil {
				return err
			}

			return show(cmd, &d.remote, applied, writeApplied)
		}),
	}
	d.addTo(cmd)

	return cmd
}

func writeApplied(w io.Writer, a *admin.Applied) error {
	for _, place := range a.Places {
		fmt.Fprintf(w, "%s %s\n", place.Place, place.What)

		if err := writeChanges(w, place.Changes); err != nil {
			return err
		}
	}

	for _, one := range a.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warningText(&one))
	}

	var err error

	switch {
	case len(a.Places) == 0:
		_, err = fmt.Fprintln(w, "nothing to change")
	case a.DryRun:
		_, err = fmt.Fprintln(w, "nothing was written")
	default:
		_, err = fmt.Fprintf(w, "version %d\n", a.Version)
	}

	return err
}

func warningText(one *admin.Warning) string {
	text := one.Message
	if one.Field != "" {
		text = one.Field + ": " + text
	}

	if one.Line > 0 {
		text = "line " + strconv.Itoa(one.Line) + ": " + text
	}

	if one.Fix != "" {
		text += " (" + one.Fix + ")"
	}

	return text
}

func writeChanges(w io.Writer, changes []admin.Change) error {
	for _, change := range changes {
		for _, side := range []struct {
			sign  string
			value any
		}{{"-", change.Before}, {"+", change.After}} {
			if side.value == nil {
				continue
			}

			text, err := json.Marshal(side.value)
			if err == nil {
				_, err = fmt.Fprintf(w, "  %s %s: %s\n", side.sign, change.Field, text)
			}

			if err != nil {
				return err
			}
		}
	}

	return nil
}

func newRulesDiff() *cobra.Command {
	d := &document{}
	cmd := &cobra.Command{
		Use: "diff -f FILE", Short: "Say what applying a rule document would change", Args: noArguments,
		Long: "Compare a document with the rules of a server. The exit status is 0 when they are the same, 1 when they differ, 2 on\n" +
			"an error.",
		Example: "  leaseway rules diff -f rules.yaml --prune",
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		d.dryRun = true
		different := false

		err := d.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			applied, err := d.send(ctx, cmd, c)
			if err != nil {
				return err
			}

			different = len(applied.Places) > 0

			return show(cmd, &d.remote, applied, writeApplied)
		})(cmd, args)

		if failed, ok := err.(*failure); ok { //nolint:errorlint // as run made it: 1 is for a difference
			return failed.error
		}

		if err == nil && different {
			return errDifferent
		}

		return err
	}
	d.addTo(cmd)

	return cmd
}

func newRulesDelete() *cobra.Command {
	w := &writing{}
	cmd := &cobra.Command{
		Use: "delete RULE", Short: "Delete a rule", Args: arguments("RULE"),
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			return w.send(ctx, cmd, c, adminCall(http.MethodDelete, "rules", args[0]))
		}),
	}
	w.addTo(cmd, false)

	return cmd
}

// send makes a call that answers with what was written.
func (w *writing) send(ctx context.Context, cmd *cobra.Command, c *client, call apiCall) error {
	written := &admin.Written{}
	if err := c.do(ctx, w.on(call), written); err != nil {
		return err
	}

	return show(cmd, &w.remote, written, func(out io.Writer, written *admin.Written) error {
		if err := writeChanges(out, written.Changes); err != nil {
			return err
		}

		for _, one := range written.Warnings {
			fmt.Fprintf(out, "warning: %s\n", warningText(&one))
		}

		return writeVersion(out, written.DryRun, written.Version)
	})
}

func writeVersion(w io.Writer, dryRun bool, version uint64) error {
	var err error

	switch {
	case dryRun:
		_, err = fmt.Fprintln(w, "nothing was written")
	case version == 0:
		_, err = fmt.Fprintln(w, "nothing to change")
	default:
		_, err = fmt.Fprintf(w, "version %d\n", version)
	}

	return err
}

func newRulesRollback() *cobra.Command {
	w, version := &writing{}, uint64(0)
	cmd := &cobra.Command{
		Use: "rollback RULE", Short: "Go back to a version of a rule", Args: arguments("RULE"),
		Long:    "Write an old version of a rule anew: versions only move forward. leaseway rules history lists them.",
		Example: "  leaseway rules rollback search-per-key --to 7 --reason 'too tight'",
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			call := adminCall(http.MethodPost, "rules", args[0], "rollback")

			body := map[string]any{}
			if version > 0 {
				body["version"] = version
			}

			return w.send(ctx, cmd, c, call.sending(body))
		}),
	}
	cmd.Flags().Uint64Var(&version, "to", 0, "the `version` (default: the one before the present one)")
	w.addTo(cmd, true)

	return cmd
}

func newRulesMode() *cobra.Command {
	w := &writing{}
	cmd := &cobra.Command{
		Use: "mode RULE MODE", Short: "Have a rule refuse, only report, or do nothing", Args: arguments("RULE", "MODE"),
		Long: "Have a rule refuse (MODE enforce), only count and report what it would refuse (shadow), or do nothing (off).",
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			return w.send(ctx, cmd, c, patch(args[0], map[string]any{"mode": args[1]}))
		}),
	}
	w.addTo(cmd, true)

	return cmd
}

func patch(ruleID string, body map[string]any) apiCall {
	return adminCall(http.MethodPatch, "rules", ruleID).sending(body)
}

func newRulesRollout() *cobra.Command {
	var (
		w       writing
		to      float64
		steps   []string
		every   time.Duration
		refused float64
		end     bool
	)

	cmd := &cobra.Command{
		Use:   "rollout RULE --to PERCENT | --auto PERCENT,… --every TIME | --end",
		Short: "Say what share of the keys has a rule as it is written",
		Args:  arguments("RULE"),
		Long: "Raise or lower the share of keys that have a rule as it is written, at once or by itself. By itself it goes on step by\n" +
			"step, also while nobody looks; it stops and goes back to 0 when more than --max-refused percent of the requests are\n" +
			"refused whose keys it has reached, in the whole fleet since the step began.",
		Example: "  leaseway rules rollout search-per-key --to 10\n" +
			"  leaseway rules rollout search-per-key --auto 1,10,50,100 --every 10m --max-refused 2",
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			flags := cmd.Flags()
			body := map[string]any{}

			if flags.Changed("to") {
				body["rollout"] = to
			}

			if end {
				body["endPlan"] = true
			}

			if len(body) == 0 && len(steps) == 0 {
				return &server.UsageError{Problems: []string{cmd.CommandPath() + " needs --to, --auto or --end (see --help)"}}
			}

			if len(steps) > 0 {
				numbers, err := percentages(steps)
				if err != nil {
					return err
				}

				plan := map[string]any{"steps": numbers, "everySec": int64(every.Seconds())}
				if flags.Changed("max-refused") {
					plan["maxRefused"] = refused
				}

				body["plan"] = plan
			}

			return w.send(ctx, cmd, c, patch(args[0], body))
		}),
	}
	flags := cmd.Flags()
	flags.Float64Var(&to, "to", 100, "the `percentage` of the keys")
	flags.StringSliceVar(&steps, "auto", nil, "rising `percentages` to go through")
	flags.DurationVar(&every, "every", 10*time.Minute, "how long each step of --auto lasts")
	flags.Float64Var(&refused, "max-refused", 5,
		"the `percentage` of refused requests, of keys that are reached, above which it goes back to 0")
	flags.BoolVar(&end, "end", false, "end what goes on by itself, and leave the rollout where it is")
	w.addTo(cmd, true)
	cmd.MarkFlagsMutuallyExclusive("to", "auto")
	cmd.MarkFlagsMutuallyExclusive("auto", "end")

	return cmd
}

func percentages(texts []string) ([]float64, error) {
	numbers := make([]float64, len(texts))

	for i, text := range texts {
		number, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
		if err != nil {
			return nil, &server.UsageError{Problems: []string{fmt.Sprintf("--auto: %q is no percentage: write such as 1,10,50,100", text)}}
		}

		numbers[i] = number
	}

	return numbers, nil
}
