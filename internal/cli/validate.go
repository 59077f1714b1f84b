package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/server"
	"github.com/leaseway/leaseway/rule"
)

func newValidate() *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Say what is wrong or doubtful in rule documents",
		Long: "Read rule documents as a server would, and print every error and every warning with its place and its fix. A - reads\n" +
			"the standard input. Warnings are about what is allowed and hardly meant, such as a rule that can never apply.\n\n" +
			"Exit status: 0 when every file can be used, 2 when one cannot.",
		Example: "  leaseway validate rules.yaml\n" +
			"  leaseway validate -o json rules/*.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%s needs a file (see %[1]s --help)", cmd.CommandPath())
			}

			if format != outputText && format != outputJSON {
				return fmt.Errorf("-o %q is neither text nor json", format)
			}

			return nil
		},
		RunE: run(func(cmd *cobra.Command, args []string) error {
			return validateFiles(cmd, args, format)
		}),
	}
	cmd.Flags().StringVarP(&format, "output", "o", outputText, "`format`, text or json")

	return cmd
}

// review is what is to be said about one file.
type review struct {
	File     string    `json:"file"`
	Valid    bool      `json:"valid"`
	Rules    int       `json:"rules"`
	Errors   []finding `json:"errors"`
	Warnings []finding `json:"warnings"`
}

// finding is an error or a warning, as JSON and, with its source line, as text.
type finding struct {
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`

	text string
}

// validateFiles prints the reviews of all files. The error has no text of its own: everything has been said.
func validateFiles(cmd *cobra.Command, paths []string, format string) error {
	reviews := make([]review, len(paths))
	valid := true

	for i, path := range paths {
		reviews[i] = reviewFile(path, cmd.InOrStdin())
		valid = valid && reviews[i].Valid
	}

	if err := printReviews(cmd.OutOrStdout(), reviews, format); err != nil {
		return err
	}

	if !valid {
		return &server.UsageError{}
	}

	return nil
}

// reviewFile reads one document and judges it.
func reviewFile(path string, stdin io.Reader) review {
	r := review{File: path, Errors: []finding{}, Warnings: []finding{}}

	text, err := readDocument(path, stdin)
	if err != nil {
		r.Errors = append(r.Errors, unreadDocument(path, err))

		return r
	}

	set, warnings, err := rule.Review(path, text)

	if errs, ok := errors.AsType[rule.Errors](err); ok {
		for _, e := range errs {
			r.Errors = append(r.Errors, finding{e.Line, e.Column, e.Field, e.Message, e.Fix, e.Error()})
		}

		return r
	}

	for _, w := range warnings {
		r.Warnings = append(r.Warnings, finding{w.Line, w.Column, w.Field, w.Message, w.Fix, w.String()})
	}

	r.Valid, r.Rules = true, len(set.Rules)

	return r
}

// unreadDocument is what is wrong with a file that could not be read.
func unreadDocument(path string, err error) finding {
	f := finding{Message: cause(err).Error(), Fix: server.FileFix(err)}
	if f.text = path + ": " + f.Message; f.Fix != "" {
		f.text += " (" + f.Fix + ")"
	}

	return f
}

// readDocument reads a file, or the standard input for "-", up to a byte more than a document may have: the parser says so.
func readDocument(path string, stdin io.Reader) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(stdin, rule.MaxDocument+1))
	}

	file, err := os.Open(path) //nolint:gosec // the file that the user names
	if err != nil {
		return nil, err
	}
	defer file.Close()

	return io.ReadAll(io.LimitReader(file, rule.MaxDocument+1))
}

// cause drops the path, which stands before it anyway.
func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}

	return err
}

func printReviews(w io.Writer, reviews []review, format string) error {
	if format == outputJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)

		return enc.Encode(map[string][]review{"files": reviews})
	}

	for _, r := range reviews {
		for _, f := range append(r.Errors, r.Warnings...) {
			fmt.Fprintln(w, f.text)
		}

		summary := counted(r.Rules, "rule")
		if !r.Valid {
			summary = counted(len(r.Errors), "error")
		}

		if len(r.Warnings) > 0 {
			summary += ", " + counted(len(r.Warnings), "warning")
		}

		if _, err := fmt.Fprintf(w, "%s: %s\n", r.File, summary); err != nil {
			return err
		}
	}

	return nil
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}

	return fmt.Sprintf("%d %ss", n, noun)
}
