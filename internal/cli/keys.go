package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/rpc"
)

func newKeys() *cobra.Command {
	keys := &cobra.Command{
		Use:   "keys",
		Short: "Make the keys that coordinators sign with, and look at those that are limited",
		Args:  noArguments,
		RunE:  run(func(cmd *cobra.Command, _ []string) error { return cmd.Help() }),
	}
	keys.AddCommand(newKeysGenerate(), newKeysShow(), newKeysReset(), newKeysRefund())

	return keys
}

func newKeysGenerate() *cobra.Command {
	out := ""
	cmd := &cobra.Command{
		Use:   "generate --out FILE",
		Short: "Make a signing key, and print its public half",
		Long: "Write a new private key to FILE, readable to its owner alone, for the --signing-key-file of every coordinator, and\n" +
			"print the public key, for the --coordinator-key of every holder.\n\n" +
			"To exchange a key: append the new one to the file everywhere, add its public half at the holders, then move it to the\n" +
			"top of the file, and in the end take out the old one.",
		Example: "  leaseway keys generate --out signing.key",
		Args:    noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			public, err := rpc.GenerateKeyFile(out)
			if errors.Is(err, fs.ErrExist) {
				return existsAlready(out)
			} else if err != nil {
				return err
			}

			_, err = fmt.Fprintln(cmd.OutOrStdout(), rpc.FormatPublicKey(public))

			return err
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` to write, which must not exist")

	if err := cmd.MarkFlagRequired("out"); err != nil {
		panic(err) // the flag is two lines above
	}

	return cmd
}
