package ledger_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/ledger/ledgertest"
)

var rewrite = flag.Bool("rewrite", false, "write what the ledger says into testdata, for review, instead of comparing")

// Each file in testdata is a conversation between holders and one ledger:
// commands, a line of dashes, and what comes of them; transcript has the commands.
// The files are for reading, too: together they teach the protocol.
//
//	go test ./internal/ledger -run TestTranscripts -rewrite
func TestTranscripts(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in testdata: %v", err)
	}

	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()

			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}

			got, err := ledgertest.Replay(string(want), inGo)
			if err != nil {
				t.Fatalf("%s:%v", file, err)
			}

			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}

				return
			}

			compare(t, file, string(want), got)
		})
	}
}

// inGo is package ledger itself.
func inGo(s *ledger.State, now int64, terms ledger.Terms, ask ledger.Ask) (ledger.Answer, error) {
	return s.Apply(now, terms, ask), nil
}

// compare reports the first line that differs, with the command it belongs to.
func compare(t *testing.T, file, want, got string) {
	t.Helper()

	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	command := ""

	for i := range max(len(w), len(g)) {
		wanted, came := line(w, i), line(g, i)
		if wanted != came {
			t.Fatalf("%s:%d: after %q\n got %s\nwant %s\n(-rewrite takes over what the ledger says; then review the difference)",
				file, i+1, command, came, wanted)
		}

		if strings.HasPrefix(wanted, "ask ") {
			command = wanted
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}

	return "(end of file)"
}
