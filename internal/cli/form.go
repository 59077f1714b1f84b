package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/internal/server"
	"github.com/leaseway/leaseway/internal/store/redis"
)

const (
	outputTable = "table"
	outputYAML  = "yaml"
)

// formOf returns what prints a value in the form that --output asks for.
func formOf[T any](output string, table func(io.Writer, T) error) (func(io.Writer, T) error, error) {
	switch output {
	case outputTable:
		return table, nil
	case outputJSON:
		return func(w io.Writer, v T) error {
			encoder := json.NewEncoder(w)
			encoder.SetEscapeHTML(false)
			encoder.SetIndent("", "  ")

			return encoder.Encode(v)
		}, nil
	case outputYAML:
		return func(w io.Writer, v T) error { return writeYAML(w, v) }, nil
	default:
		return nil, fmt.Errorf("--output %q is none of table, json and yaml", output)
	}
}

// writeYAML prints v under the names that it has in JSON, which is YAML in another style.
func writeYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}

	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return err
	}

	inBlocks(&node)

	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)

	if err := encoder.Encode(&node); err != nil {
		return err
	}

	return encoder.Close()
}

// inBlocks forgets the braces and quotes of a document; texts that would be something else without get theirs back.
func inBlocks(node *yaml.Node) {
	node.Style = 0

	for _, child := range node.Content {
		inBlocks(child)
	}
}

// completeForms has shells complete the forms that formOf knows.
func completeForms(cmd *cobra.Command) {
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]string{outputTable, outputJSON, outputYAML}, cobra.ShellCompDirectiveNoFileComp))
}

// redisOf is how to reach the Redis of a command that needs one.
func redisOf(cmd *cobra.Command, store *server.Config) (*redis.Config, error) {
	config, err := store.RedisConfig(nil)
	if err == nil && config == nil {
		err = fmt.Errorf("%s needs --store redis://HOST:PORT, as given to leaseway serve (see %[1]s --help)", cmd.CommandPath())
	}

	return config, err
}
