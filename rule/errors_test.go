package rule

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what came into the transcripts")

// Each transcript is a wrong document, a line of hyphens, and all that is said about it: people read these, so people review them.
func TestErrorTranscripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/errors/*.txt")
	if err != nil || len(paths) < 30 {
		t.Fatalf("only %d transcripts, %v: a moved directory would pass unseen", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		src, want, found := strings.Cut(string(text), "----\n")
		if !found {
			t.Errorf("%s has no line of hyphens after the document", path)
			continue
		}
		errs := refused(t, src)
		got := errs.Error() + "\n"
		for _, e := range errs {
			// What is wrong in one word, such as a scope of a list, needs no fix; all else says one.
			if e.Fix == "" && !strings.HasPrefix(e.Message, "is ") || e.Line > 0 && e.Source == "" {
				t.Errorf("%s: an error without fix or line: %v", path, e)
			}
		}
		if *update {
			if err := os.WriteFile(path, []byte(src+"----\n"+got), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got != want {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", path, got, want)
		}
	}
}
