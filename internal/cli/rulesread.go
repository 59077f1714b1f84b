package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/rulespec"
)

// rulePage is a page of the list of rules.
type rulePage struct {
	Version uint64           `json:"version"`
	Total   int              `json:"total"`
	Rules   []admin.RuleView `json:"rules"`
	Next    string           `json:"next,omitempty"`
	Bad     []admin.BadRow   `json:"bad,omitempty"`
}

func newRulesList() *cobra.Command {
	r, prefix := &remote{}, ""
	cmd := &cobra.Command{
		Use: "list", Short: "List a server's rules", Args: noArguments,
		RunE: r.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			all := rulePage{Rules: []admin.RuleView{}}

			for more := true; more; more = all.Next != "" {
				page := rulePage{}
				if err := c.do(ctx, get("rules").with("limit", "1000", "after", all.Next, "prefix", prefix), &page); err != nil {
					return err
				}

				page.Rules = append(all.Rules, page.Rules...)
				all = page
			}

			return show(cmd, r, all, writeRuleTable)
		}),
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only those whose ids begin `so`")
	r.addTo(cmd.Flags(), true)
	completeForms(cmd)

	return cmd
}

func writeRuleTable(out io.Writer, page rulePage) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tVERSION\tLIMIT\tWINDOW\tKEY BY\tMODE\tROLLOUT\tSWITCH")

	for i := range page.Rules {
		one := &page.Rules[i]

		var doc struct {
			Limit   json.Number `json:"limit"`
			Window  string      `json:"window"`
			KeyBy   []string    `json:"keyBy"`
			Mode    string      `json:"mode"`
			Rollout json.Number `json:"rollout"`
		}
		if err := json.Unmarshal(one.Rule.RawMessage, &doc); err != nil {
			return err
		}

		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", one.ID, one.Version, cmp.Or(doc.Limit, "-"), cmp.Or(doc.Window, "-"),
			cmp.Or(strings.Join(doc.KeyBy, ", "), "global"),
			cmp.Or(doc.Mode, "enforce"), cmp.Or(doc.Rollout, "100")+"%", cmp.Or(one.Switch, "on"))
	}

	for _, bad := range page.Bad {
		fmt.Fprintf(w, "bad row: %s: %s\n", bad.Place, bad.Message)
	}

	return w.Flush()
}

func newRulesGet() *cobra.Command {
	r, version := &remote{}, uint64(0)
	cmd := &cobra.Command{
		Use: "get RULE", Short: "Read one rule, as it is or as it was", Args: arguments("RULE"),
		RunE: r.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			call := get("rules", args[0])
			if version > 0 {
				call = get("rules", args[0], "versions", strconv.FormatUint(version, 10))
			}

			var one json.RawMessage
			if err := c.do(ctx, call, &one); err != nil {
				return err
			}

			return show(cmd, r, one, func(w io.Writer, one json.RawMessage) error { return writeYAML(w, one) })
		}),
	}
	cmd.Flags().Uint64Var(&version, "version", 0, "as it was after this `version`")
	r.addTo(cmd.Flags(), true)
	completeForms(cmd)

	return cmd
}

func newRulesExport() *cobra.Command {
	r, out := &remote{}, ""
	cmd := &cobra.Command{
		Use: "export", Short: "Write all rules of a server as one document", Args: noArguments,
		Long: "Write the rules, and what is beside them, as a document that can be kept, changed, compared and applied.",
		Example: "  leaseway rules export --out rules.yaml\n" +
			"  leaseway rules diff -f rules.yaml",
		RunE: r.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			var doc json.RawMessage
			if err := c.do(ctx, get("document"), &doc); err != nil {
				return err
			}

			return toFile(out, cmd.OutOrStdout(), func(w io.Writer) error {
				if r.output == outputJSON {
					return show(cmd, &remote{output: outputJSON}, doc, nil)
				}

				if _, err := fmt.Fprintln(w, rulespec.Modeline); err != nil {
					return err
				}

				return writeYAML(w, doc)
			})
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` to write, which must not exist (default: the standard output)")
	r.addTo(cmd.Flags(), false)
	cmd.Flags().StringVarP(&r.output, "output", "o", outputYAML, "`form` of the document: yaml or json")

	return cmd
}

// roster is who runs which rules.
type roster struct {
	Version      uint64               `json:"version"`
	Behind       int                  `json:"behind"`
	More         int                  `json:"more,omitempty"`
	Coordinators int                  `json:"coordinators"`
	Partial      bool                 `json:"partial,omitempty"`
	Instances    []admin.InstanceView `json:"instances"`
}

func newRulesStatus() *cobra.Command {
	r := &remote{}
	cmd := &cobra.Command{
		Use: "status", Short: "Say which version of the rules each instance runs", Args: noArguments,
		Long: "List the instances that were heard of within the last seconds, and the version of the rules that each runs. It does not\n" +
			"matter which coordinator of a rule store is asked: they tell each other. The exit status is 1 while any instance is behind.",
		RunE: r.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			var all roster
			if err := c.do(ctx, get("instances"), &all); err != nil {
				return err
			}

			if err := show(cmd, r, all, writeRoster); err != nil {
				return err
			}

			if all.Behind > 0 {
				return fmt.Errorf("%d of %d instances are behind version %d", all.Behind, len(all.Instances)+all.More, all.Version)
			}

			return nil
		}),
	}
	r.addTo(cmd.Flags(), true)
	completeForms(cmd)

	return cmd
}

func writeRoster(out io.Writer, all roster) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "NAME\tINCARNATION\tVERSION\tSEEN\t(newest: %d)\n", all.Version)

	for _, one := range all.Instances {
		note := ""
		if one.Behind {
			note = "behind"
		}

		if one.Bare {
			note = strings.TrimPrefix(note+", shows no token", ", ")
		}

		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", cmp.Or(one.Name, "-"), one.Incarnation, one.Version, one.Seen.Format(time.RFC3339), note)
	}

	if all.More > 0 {
		fmt.Fprintf(w, "and %d more\n", all.More)
	}

	if err := w.Flush(); err != nil || !all.Partial {
		return err
	}

	_, err := fmt.Fprintln(out, "only what this coordinator hears of itself: it has no rule store in which others could tell it more, "+
		"or that does not answer")

	return err
}
