package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/counts"
	"github.com/leaseway/leaseway/rule"
)

const shadowHelp = `Say what rules and shedders in shadow mode would have refused, by the counts of a running server since its start.

A rule or shedder in shadow mode decides and counts like any other, and refuses nothing. Before it is enforced, see here how
often it would have refused. Every server counts its own requests: ask each, or add up leaseway_decisions_total and
leaseway_shed_total over all of them where the metrics are collected. To enforce keeps the counts and the budgets.

Whom they would have refused comes after that, the most frequent first: API keys, and the keys of rules that say secret, as hints by
which their owners can tell them. A server counts 100 of each rule exactly; where there are more, a figure may be too high, and says
by how much.

A rule that is in shadow mode for some keys only, by a rollout, is seen here with those.`

func newShadow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shadow",
		Short: "Say what shadow mode would have refused",
		Args:  noArguments,
		RunE:  run(func(cmd *cobra.Command, _ []string) error { return cmd.Help() }),
	}

	var (
		r   remote
		top uint
	)

	report := &cobra.Command{
		Use:   "report",
		Short: "Say what shadow mode would have refused",
		Long:  shadowHelp,
		Example: "  leaseway shadow report --server http://127.0.0.1:8080\n" +
			"  leaseway shadow report --context prod --top 20",
		Args: noArguments,
		PreRunE: func(*cobra.Command, []string) error {
			if _, err := counts.Top(strconv.FormatUint(uint64(top), 10)); err != nil {
				return fmt.Errorf("--%w", err)
			}

			return nil
		},
		RunE: r.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			found, err := readShadows(ctx, c, top)
			if err != nil {
				return err
			}

			return show(cmd, &r, found, func(w io.Writer, found *shadowReport) error {
				if err := writeShadows(w, found.Shadows); err != nil {
					return err
				}

				return writeShadowKeys(w, found.Keys)
			})
		}),
	}

	report.Flags().UintVar(&top, "top", usualTop, "of each rule name so many whom it would have refused: a `number` from 0 to 100")
	r.addTo(report.Flags(), true)
	completeForms(report)

	cmd.AddCommand(report)

	return cmd
}

// shadow is what one rule, or one shedder about one class, would have done.
type shadow struct {
	Rule    string `json:"rule,omitempty"`
	Shedder string `json:"shedder,omitempty"`
	Class   string `json:"class,omitempty"`
	Refused int64  `json:"refused"`
	Allowed *int64 `json:"allowed,omitempty"` // of a rule: a shedder does not count what it lets pass
}

// readShadows reads the counts of a server, and the top ones of whom each rule and shedder would have refused.
func readShadows(ctx context.Context, c *client, top uint) (*shadowReport, error) {
	text, err := c.text(ctx, apiCall{method: http.MethodGet, path: []string{"metrics"}})
	if err != nil {
		return nil, err
	}

	parser := expfmt.NewTextParser(model.UTF8Validation)

	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the server's /metrics cannot be read (is a Leaseway server at that URL?): %w", err)
	}

	var answer counts.Shadow

	call := apiCall{method: http.MethodGet, path: []string{"shadow"}}
	if err := c.do(ctx, call.with("top", strconv.FormatUint(uint64(top), 10)), &answer); err != nil {
		return nil, err
	}

	shadows := append(shadowRules(families["leaseway_decisions_total"]),
		shadowShedders(families["leaseway_shed_total"], answer.Shedders)...)

	return &shadowReport{Shadows: shadows, Keys: answer.Keys}, nil
}

// shadowRules adds up the decisions of each rule in shadow mode.
func shadowRules(family *dto.MetricFamily) []shadow {
	byRule := map[string]*shadow{}

	for _, metric := range family.GetMetric() {
		labels := labelsOf(metric)
		if labels["mode"] != rule.Shadow.String() {
			continue
		}

		s := byRule[labels["rule"]]
		if s == nil {
			s = &shadow{Rule: labels["rule"], Allowed: new(int64)}
			byRule[s.Rule] = s
		}

		if n := int64(metric.GetCounter().GetValue()); labels["outcome"] == "allowed" {
			*s.Allowed += n
		} else {
			s.Refused += n
		}
	}

	shadows := make([]shadow, 0, len(byRule))
	for _, s := range byRule {
		shadows = append(shadows, *s)
	}

	slices.SortFunc(shadows, func(a, b shadow) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), strings.Compare(a.Rule, b.Rule))
	})

	return shadows
}

// shadowShedders are what shedders would have refused, by class, where that is anything; of those that are in shadow mode and
// would have refused nothing yet, just that.
func shadowShedders(family *dto.MetricFamily, inShadow []string) []shadow {
	var shadows []shadow

	for _, metric := range family.GetMetric() {
		labels := labelsOf(metric)
		if n := int64(metric.GetCounter().GetValue()); labels["mode"] == rule.Shadow.String() && n > 0 {
			shadows = append(shadows, shadow{Shedder: labels["shedder"], Class: labels["class"], Refused: n})
		}
	}

	for _, name := range inShadow {
		if !slices.ContainsFunc(shadows, func(s shadow) bool { return s.Shedder == name }) {
			shadows = append(shadows, shadow{Shedder: name})
		}
	}

	return shadows
}

func labelsOf(metric *dto.Metric) map[string]string {
	labels := make(map[string]string, len(metric.GetLabel()))
	for _, pair := range metric.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}

	return labels
}

func writeShadows(w io.Writer, shadows []shadow) error {
	if len(shadows) == 0 {
		_, err := fmt.Fprintln(w, "no rule and no shedder is in shadow mode")

		return err
	}

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IN SHADOW MODE\tWOULD HAVE REFUSED\tOF\tSHARE")

	for _, s := range shadows {
		if s.Allowed == nil {
			what := s.Shedder + " shedder"
			if s.Class != "" {
				what += ", class " + s.Class
			}

			fmt.Fprintf(table, "%s\t%d\t-\t-\n", what, s.Refused)

			continue
		}

		of, share := s.Refused+*s.Allowed, "-"
		if of > 0 {
			share = fmt.Sprintf("%.2f%%", 100*float64(s.Refused)/float64(of))
		}

		fmt.Fprintf(table, "rule %s\t%d\t%d\t%s\n", s.Rule, s.Refused, of, share)
	}

	if err := table.Flush(); err != nil || slices.ContainsFunc(shadows, shadow.counts) {
		return err
	}

	_, err := fmt.Fprintln(w, "\nThis server decided no request under them. Each counts its own: ask those that do, by --server, where "+
		"they serve /metrics\nand /shadow (a Go program by leasewayhttp.Metrics and leasewayhttp.Shadow).")

	return err
}

// counts says whether any request was counted. A shedder counts only what it would have refused.
func (s shadow) counts() bool { return s.Allowed == nil || s.Refused+*s.Allowed > 0 }
