package cli

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/rulespec"
)

// templates are documents to start from, each named for what it limits.
//
//go:embed templates/*.yaml
var templates embed.FS

func newRules() *cobra.Command {
	rules := &cobra.Command{
		Use:   "rules",
		Short: "Read and change a server's rules; start a rule document",
		Args:  noArguments,
		RunE:  run(func(cmd *cobra.Command, _ []string) error { return cmd.Help() }),
	}
	rules.AddCommand(
		newRulesInit(), newRulesSchema(), newRulesList(), newRulesGet(), newRulesApply(), newRulesDiff(), newRulesDelete(),
		newRulesHistory(), newRulesRollback(), newRulesRollout(), newRulesMode(), newRulesStatus(), newRulesExport(),
	)

	return rules
}

func newRulesInit() *cobra.Command {
	name, out := "", ""
	cmd := &cobra.Command{
		Use:   "init --template NAME",
		Short: "Print a commented rule document to start from",
		Long: "Print a rule document with comments, to be changed: " + strings.Join(templateNames(), ", ") + ".\n" +
			"Its first line lets editors " +
			"with the YAML language server complete and check it.",
		Example: "  leaseway rules init --template public-api --out rules.yaml\n" +
			"  leaseway validate rules.yaml",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := templates.ReadFile("templates/" + name + ".yaml")
			if err != nil { // asked for wrongly: not a failure of the command
				return fmt.Errorf("--template %q is none of %s", name, strings.Join(templateNames(), ", "))
			}

			return run(func(cmd *cobra.Command, _ []string) error {
				return writeNew(out, cmd.OutOrStdout(), rulespec.Modeline+"\n"+string(text))
			})(cmd, nil)
		},
	}
	cmd.Flags().StringVar(&name, "template", "public-api", "`name`: "+strings.Join(templateNames(), ", "))
	cmd.Flags().StringVar(&out, "out", "", "`file` to write, which must not exist (default: the standard output)")

	return cmd
}

func newRulesSchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of rule documents",
		Example: "  leaseway rules schema > leaseway.schema.json",
		Args:    noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			schema, err := rulespec.Schema()
			if err != nil {
				return err
			}

			_, err = cmd.OutOrStdout().Write(schema)

			return err
		}),
	}
}

// templateNames are the names of the templates, sorted.
func templateNames() []string {
	files, err := fs.Glob(templates, "templates/*.yaml")
	if err != nil {
		return nil // only for a pattern that is none
	}

	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(path.Base(file), ".yaml")
	}

	return names
}

// writeNew writes text into a file that does not exist yet, or without a path to the output.
func writeNew(name string, stdout io.Writer, text string) error {
	return toFile(name, stdout, func(w io.Writer) error {
		_, err := io.WriteString(w, text)

		return err
	})
}

// toFile writes a file that does not exist yet, or without a path the output.
func toFile(name string, stdout io.Writer, write func(io.Writer) error) error {
	if name == "" {
		return write(stdout)
	}

	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // rules are no secret
	if errors.Is(err, fs.ErrExist) {
		return existsAlready(name)
	} else if err != nil {
		return err
	}

	return errors.Join(write(file), file.Close())
}

// existsAlready is the error of a command that would overwrite a file.
func existsAlready(name string) error {
	return fmt.Errorf("%s exists: choose another --out, or move it away", name)
}
