package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/envoyimport"
	"github.com/leaseway/leaseway/internal/server"
)

func newImport() *cobra.Command {
	parent := &cobra.Command{
		Use:   "import",
		Short: "Turn the limits of another rate limiter into rules",
		Args:  noArguments,
		RunE:  run(func(cmd *cobra.Command, _ []string) error { return cmd.Help() }),
	}
	parent.AddCommand(newImportEnvoy())

	return parent
}

func newImportEnvoy() *cobra.Command {
	out := ""
	cmd := &cobra.Command{
		Use:   "envoy FILE",
		Short: "Turn a document of envoyproxy/ratelimit into rules that give the same answers",
		Long: "Read the YAML of envoyproxy/ratelimit, and write a rule document that gives the same answers to Envoy. A - reads the\n" +
			"standard input. What has no counterpart is named with its line, on the standard error and at the head of the document.\n\n" +
			"Exit status: 0 when the rules are written, 2 when the file cannot be used; then every error is listed.",
		Example: "  leaseway import envoy ratelimit.yaml -o rules.yaml\n" +
			"  leaseway serve --rules rules.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s needs one file (see %[1]s --help)", cmd.CommandPath())
			}

			return nil
		},
		RunE: run(func(cmd *cobra.Command, args []string) error {
			src, err := readDocument(args[0], cmd.InOrStdin())
			if err != nil {
				return &server.UsageError{Problems: []string{unreadDocument(args[0], err).text}}
			}

			document, notes, err := envoyimport.Import(args[0], src)
			if err != nil {
				return &server.UsageError{Problems: []string{err.Error()}}
			}

			for _, n := range notes {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s:%d: note: %s\n", args[0], n.Line, n.Message)
			}

			return writeNew(out, cmd.OutOrStdout(), string(document))
		}),
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "`file` to write, which must not exist (default: the standard output)")

	return cmd
}
