package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/internal/phrase"
	"github.com/leaseway/leaseway/internal/server"
)

// contexts are the servers that somebody works with, by names of their own: the file that commands against a server read.
type contexts struct {
	Current  string                 `yaml:"current,omitempty"`
	Contexts map[string]serverEntry `yaml:"contexts,omitempty"`
}

// serverEntry is one server, and how to be let in.
type serverEntry struct {
	Server    string `json:"server"              yaml:"server"`
	Token     string `json:"token,omitempty"     yaml:"token,omitempty"`
	TokenFile string `json:"tokenFile,omitempty" yaml:"tokenFile,omitempty"`
	CA        string `json:"ca,omitempty"        yaml:"ca,omitempty"`

	ClientCert string `json:"clientCert,omitempty" yaml:"clientCert,omitempty"`
	ClientKey  string `json:"clientKey,omitempty"  yaml:"clientKey,omitempty"`
}

// addCertificates adds the flags of a client certificate, which a server may ask for instead of a token.
func (e *serverEntry) addCertificates(flags *pflag.FlagSet) {
	flags.StringVar(&e.ClientCert, "client-cert", "", "`file` with the certificate to show, where the server asks for one")
	flags.StringVar(&e.ClientKey, "client-key", "", "`file` with its private key")
}

// contextsPath is where the file is: $XDG_CONFIG_HOME/leaseway/config.yaml. The error says what to set.
func contextsPath(environ environment) (string, error) {
	if dir := environ.get("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "leaseway", "config.yaml"), nil
	}

	if home := environ.get("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "leaseway", "config.yaml"), nil
	}

	return "", errors.New("neither XDG_CONFIG_HOME nor HOME is an absolute path to keep contexts below: set one of them")
}

// readContexts reads the file; none has no contexts.
func readContexts(path string) (*contexts, error) {
	all := &contexts{Contexts: map[string]serverEntry{}}

	text, err := readAtMost(path, maxSecret)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	} else if err != nil {
		return nil, err
	}

	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)

	if err := decoder.Decode(all); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	if all.Contexts == nil {
		all.Contexts = map[string]serverEntry{}
	}

	return all, nil
}

// write replaces the file, which may have tokens in it, for this user alone.
func (c *contexts) write(path string) error {
	const private, privateDir = 0o600, 0o700

	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(path), privateDir); err != nil {
		return err
	}

	if err := os.WriteFile(path+".new", text, private); err != nil {
		return err
	}

	return os.Rename(path+".new", path)
}

// entry is the context of a name. The error lists those that there are.
func (c *contexts) entry(name string) (serverEntry, error) {
	if one, ok := c.Contexts[name]; ok {
		return one, nil
	}

	there := "none"
	if len(c.Contexts) > 0 {
		there = strings.Join(slices.Sorted(maps.Keys(c.Contexts)), ", ")
	}

	return serverEntry{}, fmt.Errorf("there is no context %q: there are: %s (leaseway context set makes one)", name, there)
}

func newContext() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Name the servers that commands go to",
		Long: "Keep servers by names, in $XDG_CONFIG_HOME/leaseway/config.yaml. Commands against a server go to the one in use;\n" +
			"--context names another one. --server and LEASEWAY_SERVER go before it, --token-file and LEASEWAY_TOKEN before its\ntoken.",
		Example: "  leaseway context set prod --server https://limits.example --token-file ~/.limits-token\n" +
			"  leaseway context use prod",
		Args: noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) error { return cmd.Help() }),
	}
	cmd.AddCommand(newContextList(), newContextSet(), newContextUse(), newContextDelete())

	return cmd
}

// withContexts reads the file, has it changed, and writes it.
func withContexts(change func(all *contexts, name string) error) func(*cobra.Command, []string) error {
	return run(func(_ *cobra.Command, args []string) error {
		path, err := contextsPath(environ())
		if err != nil {
			return err
		}

		all, err := readContexts(path)
		if err == nil {
			err = change(all, args[0])
		}

		if err != nil {
			return err
		}

		return all.write(path)
	})
}

func newContextSet() *cobra.Command {
	var entry serverEntry

	cmd := &cobra.Command{
		Use: "set NAME --server URL", Short: "Make or change a context; the first one is in use", Args: arguments("NAME"),
		RunE: withContexts(func(all *contexts, name string) error {
			for _, file := range []*string{&entry.TokenFile, &entry.CA, &entry.ClientCert, &entry.ClientKey} {
				if err := anywhere(file); err != nil {
					return err
				}
			}

			all.Contexts[name] = entry
			if all.Current == "" {
				all.Current = name
			}

			if _, err := (&client{entry: entry}).address(); err != nil {
				return &server.UsageError{Problems: []string{err.Error()}}
			}

			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&entry.Server, "server", "", "the `URL` of the server's HTTP, or admin, listener")
	flags.StringVar(&entry.TokenFile, "token-file", "", "`file` with the token to show")
	flags.StringVar(&entry.CA, "ca", "", "`file` with the certificates that vouch for the server")
	entry.addCertificates(flags)
	flags.SortFlags = false

	if err := cmd.MarkFlagRequired("server"); err != nil {
		panic(err) // the flag is just above
	}

	return cmd
}

// anywhere has a path lead to the same file from every directory.
func anywhere(path *string) (err error) {
	if *path != "" {
		*path, err = filepath.Abs(*path)
	}

	return err
}

func newContextUse() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Have commands go to this one", Args: arguments("NAME"),
		RunE: withContexts(func(all *contexts, name string) error {
			_, err := all.entry(name)
			all.Current = name

			return err
		}),
	}
}

func newContextDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Forget a context", Args: arguments("NAME"),
		RunE: withContexts(func(all *contexts, name string) error {
			_, err := all.entry(name)
			delete(all.Contexts, name)

			if all.Current == name {
				all.Current = ""
			}

			return err
		}),
	}
}

func newContextList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the contexts; the one in use has a star", Args: noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			path, err := contextsPath(environ())
			if err != nil {
				return err
			}

			all, err := readContexts(path)
			if err != nil {
				return err
			}

			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)

			for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
				star := " "
				if name == all.Current {
					star = "*"
				}

				fmt.Fprintf(w, "%s %s\t%s\n", star, name, phrase.Address(all.Contexts[name].Server))
			}

			return w.Flush()
		}),
	}
}
