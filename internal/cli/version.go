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
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "leaseway %s %s\n", server.Version(), server.Platform())

			return err
		}),
	}
}
