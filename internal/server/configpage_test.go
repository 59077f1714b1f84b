package server

import (
	"bytes"
	goflag "flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

var update = goflag.Bool("update", false, "write the generated files")

// configIntro is what docs/configuration.md says before the table.
const configIntro = `<!-- Written by "make generate" from internal/server/config.go: edit that. -->

# Configuration

` + "`leaseway serve`" + ` takes each setting in three ways. A flag goes before the environment, the environment before the file that
` + "`--config`" + ` names, and that before the default:

` + "```" + `
leaseway serve --grpc-listen 127.0.0.1:9001
LEASEWAY_GRPC_LISTEN=127.0.0.1:9001 leaseway serve
leaseway serve --config leaseway.yaml        # with the line grpcListen: 127.0.0.1:9001
` + "```" + `

A name that is no setting is an error, in each of the three; an empty variable counts as not set, and
an empty flag is an error. Lists are separated by commas, or written as lists in the file. Spans of time are a number and a
unit: ` + "`20ms`, `1s`" + `. Everything that is wrong is said at once, and the server does not start (exit status 2); only
a flag that cannot be read as one, such as a span without a unit, is said alone.

Over HTTP, ` + "`GET /healthz`" + ` says that the process lives; ` + "`GET /readyz`" + ` whether to send it requests, and why not (200 or 503,
with the reasons); ` + "`GET /metrics`" + ` what it does, for Prometheus: there it asks for a token where ` + "`--token-file`" + ` names some,
or those of role holder are [required](admin-api.md#giving-a-running-fleet-tokens).
SIGTERM and SIGINT stop it in order; SIGHUP has it look at its files now, which it does by itself when they change.

What the limits are is no setting: see [the rule document](rules.md), which ` + "`--rules`" + ` names.

| flag | environment | file | default | meaning |
|---|---|---|---|---|
`

// configPage is docs/configuration.md.
func configPage() []byte {
	var b bytes.Buffer

	b.WriteString(configIntro)

	NewSettings().Flags().VisitAll(func(f *pflag.Flag) {
		what, usage := pflag.UnquoteUsage(f)
		// What follows is the default in words, where it depends on the machine.
		usage, byMachine, _ := strings.Cut(usage, " (default")
		name, key, value := "`--"+f.Name+"`", "`"+camel(f.Name)+"`", "–"

		if what == "string" { // one of the words that the meaning lists
			what = "word"
		}

		if what != "" {
			name = strings.Replace(name, "`--"+f.Name, "`--"+f.Name+" "+strings.ToUpper(what), 1)
		}

		switch {
		case byMachine != "":
			value = strings.Trim(byMachine, " :)")
		case f.DefValue != "" && f.DefValue != "[]":
			value = "`" + f.DefValue + "`"
		}

		if f.Name == "config" {
			key = "–"
		}

		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", name, variable(f.Name), key, value, strings.ReplaceAll(usage, "|", `\|`))
	})

	return b.Bytes()
}

func TestGeneratedFilesAreCurrent(t *testing.T) {
	const path = "../../docs/configuration.md"

	want := configPage()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}

		return
	}

	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is out of date (%v): run make generate and commit it", path, err)
	}
}
