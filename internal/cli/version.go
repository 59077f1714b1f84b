package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/server"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say which version this is",
		Example: "  leaseway version",
		Args:    noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())

			return err
		}),
	}
}

// versionText is what the command prints, and --version.
func versionText() string { return "leaseway " + server.Version() + " " + server.Platform() }
