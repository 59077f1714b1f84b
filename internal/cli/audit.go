package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/admin"
)

// records is a page of what was done.
type records struct {
	Records []admin.RecordView `json:"records"`
	Next    uint64             `json:"next,omitempty"`
}

// mostRecords is how many are printed unless something is said, and pageRecords how many are asked for at a time.
const (
	mostRecords = 50
	pageRecords = 1000
)

// read reads up to most of them, the latest first.
func (r *records) read(ctx context.Context, c *client, call apiCall, most int) error {
	for more := true; more && len(r.Records) < most; more = r.Next > 0 {
		limit := min(most-len(r.Records), pageRecords)
		page := records{}

		before := ""
		if r.Next > 0 {
			before = strconv.FormatUint(r.Next, 10)
		}

		if err := c.do(ctx, call.with("limit", strconv.Itoa(limit), "before", before), &page); err != nil {
			return err
		}

		r.Records, r.Next = append(r.Records, page.Records...), page.Next
	}

	return nil
}

func newRulesHistory() *cobra.Command {
	r, most := &remote{}, mostRecords
	cmd := &cobra.Command{
		Use: "history RULE", Short: "List the versions of a rule", Args: arguments("RULE"),
		RunE: r.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			list := records{}
			if err := list.read(ctx, c, get("rules", args[0], "versions"), most); err != nil {
				return err
			}

			return show(cmd, r, list, writeRecords)
		}),
	}
	cmd.Flags().IntVar(&most, "limit", mostRecords, "`how many` at most, the latest first")
	r.addTo(cmd.Flags(), true)
	completeForms(cmd)

	return cmd
}

func newAudit() *cobra.Command {
	var (
		r                                  remote
		most                               int
		version                            uint64
		ruleID, author, action, target, at string
	)

	cmd := &cobra.Command{
		Use: "audit", Short: "Say who did what, and why", Args: noArguments,
		Example: "  leaseway audit --rule search-per-key\n  leaseway audit --author ada --action overrides.",
		RunE: r.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			if version > 0 {
				at = strconv.FormatUint(version, 10)
			}

			list := records{}
			call := get("audit").with("rule", ruleID, "author", author, "action", action, "target", target, "version", at)

			if err := list.read(ctx, c, call, most); err != nil {
				return err
			}

			return show(cmd, &r, list, writeRecords)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&ruleID, "rule", "", "only what changed this `rule`")
	flags.Uint64Var(&version, "version", 0, "only what made this `version`")
	flags.StringVar(&author, "author", "", "only what this `author` did")
	flags.StringVar(&action, "action", "", "only actions that begin `so`, such as rules. or tokens.")
	flags.StringVar(&target, "target", "", "only what was done to this `target`")
	flags.IntVar(&most, "limit", mostRecords, "`how many` at most, the latest first")
	r.addTo(flags, true)
	completeForms(cmd)

	return cmd
}

func writeRecords(out io.Writer, list records) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SEQ\tVERSION\tAT\tAUTHOR\tACTION\tTARGET\tREASON")

	for i := range list.Records {
		one := &list.Records[i]

		version := "-"
		if one.Version > 0 {
			version = strconv.FormatUint(one.Version, 10)
		}

		target := cmp.Or(one.Target, "-")
		if one.Overrides > 0 {
			target += " (" + counted(int(one.Overrides), "override") + ")"
		}

		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n",
			one.Seq, version, one.At.UTC().Format(time.RFC3339), one.Author, one.Action, target, one.Reason)
	}

	return w.Flush()
}
