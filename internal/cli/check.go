package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/rule"
)

const checkHelp = `Decide one request, and explain the decision: which rules apply, which do not and why, whose budget is spent,
and whether an override gives that key a limit of its own.

With --rules the request is decided under a rule document alone, with all budgets full. With --server it is decided by a
running server, and charged there: --cost 0 only looks.

The exit status is 0 if the request is allowed, 1 if it is denied, and 2 if there is no answer.`

// checkFlags are what check was asked.
type checkFlags struct {
	rules, output        string
	server               checkServer
	attributes           check.Attributes
	headers, descriptors []string
	entries              []string
	cost                 int64
}

func newCheck() *cobra.Command {
	f := &checkFlags{}

	cmd := &cobra.Command{
		Use:   "check (--rules FILE | --server URL)",
		Short: "Decide one request, and explain why",
		Long:  checkHelp,
		Example: "  leaseway check --rules rules.yaml --apikey k1 --method GET --path /v1/search\n" +
			"  leaseway check --server http://127.0.0.1:8080 --user ada --path /v1/search --cost 0\n" +
			"  leaseway check --rules rules.yaml --header 'X-Tier: gold' --descriptor plan=pro -o json",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			asJSON, err := jsonOutput(f.output)
			if err != nil {
				return err
			}

			question, err := f.question(cmd.Flags().Changed("cost"))
			if err != nil {
				return err
			}

			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()

			answer, err := f.ask(ctx, question)
			if err != nil {
				return err
			}

			return writeAnswer(cmd.OutOrStdout(), answer, asJSON)
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&f.rules, "rules", "", "decide under the rule document in this `file`")
	flags.StringVar(&f.server.url, "server", "", "ask the server at this `URL`, such as https://limits.example:8080")
	flags.StringVar(&f.attributes.User, "user", "", "who the caller `is`")
	flags.StringVar(&f.attributes.IP, "ip", "", "the caller's `address`")
	flags.StringVar(&f.attributes.APIKey, "apikey", "", "the caller's API `key`")
	flags.StringVar(&f.attributes.Method, "method", "", "HTTP `method`")
	flags.StringVar(&f.attributes.Path, "path", "", "`path`, from its first slash")
	flags.StringVar(&f.attributes.Host, "host", "", "`host`, with or without a port")
	flags.StringArrayVar(&f.headers, "header", nil, "a header, as `'NAME: VALUE'`; may be repeated")
	flags.StringArrayVar(&f.descriptors, "descriptor", nil, "a descriptor, as `NAME=VALUE`; may be repeated")
	flags.StringVar(&f.attributes.Domain, "domain", "", "the `domain` of a proxy's descriptor")
	flags.StringArrayVar(&f.entries, "entry", nil, "an entry of a proxy's descriptor, as `NAME=VALUE`, in its order; may be repeated")
	flags.StringVar(&f.attributes.Class, "class", "", "how much the request matters: `class` critical, write, read or test")
	flags.StringVar(&f.attributes.LowerTo, "lower-to", "", "what the caller itself says of its `class`: it only lowers")
	flags.Int64Var(&f.cost, "cost", 1, "`tokens` that the request takes; 0 only looks (default: what each rule says)")
	flags.StringVar(&f.server.tokenFile, "token-file", "", "`file` with the token that the server asks for")
	flags.StringVar(&f.server.ca, "ca", "", "`file` with the certificates that vouch for the server")
	flags.StringVarP(&f.output, "output", "o", outputText, "`form` of the answer: text or json")
	flags.Lookup("cost").DefValue = "0" // which the help does not show
	flags.SortFlags = false

	return cmd
}

// question is what the check door is asked.
type question struct {
	Attributes check.Attributes `json:"attributes"`
	Cost       *int64           `json:"cost,omitempty"`
	Explain    bool             `json:"explain"`
}

// question puts the flags together. A cost that was not given is each rule's own.
func (f *checkFlags) question(withCost bool) (*question, error) {
	switch {
	case (f.rules == "") == (f.server.url == ""):
		return nil, errors.New("check needs one of --rules FILE and --server URL (see leaseway check --help)")
	case f.server.url == "" && (f.server.tokenFile != "" || f.server.ca != ""):
		return nil, errors.New("--token-file and --ca are for --server")
	}

	q := &question{Attributes: f.attributes, Explain: true}
	if withCost {
		q.Cost = &f.cost
	}

	for _, line := range f.headers {
		name, content, found := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !found || name == "" {
			return nil, fmt.Errorf("--header %q has no colon: write 'NAME: VALUE'", line)
		}

		if q.Attributes.Headers == nil {
			q.Attributes.Headers = map[string]check.Values{}
		}

		q.Attributes.Headers[name] = append(q.Attributes.Headers[name], strings.TrimSpace(content))
	}

	for _, pair := range f.descriptors {
		name, content, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("--descriptor %q has no equals sign: write NAME=VALUE", pair)
		}

		if q.Attributes.Descriptors == nil {
			q.Attributes.Descriptors = map[string]string{}
		}

		q.Attributes.Descriptors[name] = content
	}

	for _, pair := range f.entries {
		name, content, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("--entry %q has no equals sign: write NAME=VALUE", pair)
		}

		q.Attributes.Entries = append(q.Attributes.Entries, check.Entry{Key: name, Value: content})
	}

	return q, nil
}

// ask gets an answer from the server, or from the rules alone.
func (f *checkFlags) ask(ctx context.Context, q *question) (*check.Explained, error) {
	if f.server.url != "" {
		return f.server.ask(ctx, q)
	}

	text, err := readAtMost(f.rules, rule.MaxDocument)
	if err != nil {
		return nil, err
	}

	set, err := rule.Parse(f.rules, text)
	if err != nil {
		return nil, err
	}

	limiter, err := leaseway.Embedded(set) //nolint:contextcheck // it reads nothing
	if err != nil {
		return nil, err
	}
	defer limiter.Close(context.WithoutCancel(ctx))

	door := check.New(limiter)

	decision, err := door.Check(ctx, q.Attributes, q.Cost, true)
	if err != nil {
		return nil, asFlag(err)
	}

	return door.Explain(check.NewAnswer(decision), q.Attributes, q.Cost)
}

// asFlag names the flag that filled in the field which is wrong.
func asFlag(err error) error {
	if field, ok := errors.AsType[*check.FieldError](err); ok {
		name := strings.TrimPrefix(field.Field, "attributes.")

		switch name {
		case "lowerTo":
			name = "lower-to"
		case "headers", "descriptors":
			name = strings.TrimSuffix(name, "s")
		case "entries":
			name = "entry"
		}

		return fmt.Errorf("--%s %s", name, field.Message)
	}

	return err
}
