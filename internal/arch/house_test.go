package arch

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines is where a file surely holds more than one idea.
const maxLines = 500

func TestPackageCommentsSayTheJob(t *testing.T) {
	t.Parallel()

	sentence := regexp.MustCompile(`[.!?]["')]*(\s|$)`)

	for _, pkg := range loadModule(t).packages {
		if pkg.isGenerated() || len(pkg.code()) == 0 {
			continue
		}

		var found []string

		for _, file := range pkg.code() {
			if file.tree.Doc == nil {
				continue
			}

			found = append(found, file.name)

			if text := file.tree.Doc.Text(); len(sentence.FindAllString(text, 2)) < 2 {
				t.Errorf("%s: a package comment says the job and the neighbours, in two sentences or more: %q", file.name, text)
			}
		}

		switch len(found) {
		case 0:
			t.Errorf("package %s has no package comment: say its job and its neighbours in its main file", pkg.path)
		case 1:
		default:
			t.Errorf("package %s has several package comments, which go doc runs together: keep one of %v", pkg.path, found)
		}
	}
}

func TestFilesHoldOneIdea(t *testing.T) {
	t.Parallel()

	for _, pkg := range loadModule(t).packages {
		for _, file := range pkg.code() {
			if !pkg.isGenerated() && file.lines > maxLines {
				t.Errorf("%s has %d lines; over %d a file holds more than one idea: split it by type", file.name, file.lines, maxLines)
			}
		}
	}
}

func TestNamesSayWhatIsInside(t *testing.T) {
	t.Parallel()

	vague := []string{"util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "shared", "types"}

	for _, pkg := range loadModule(t).packages {
		for _, file := range pkg.files {
			base := strings.TrimSuffix(strings.TrimSuffix(path.Base(file.name), ".go"), "_test")
			if slices.Contains(vague, base) || slices.Contains(vague, path.Base(pkg.path)) {
				t.Errorf("%s: the name says nothing; name a file for its main type and a package for its job", file.name)
			}
		}
	}
}

// A replaced module works here and breaks for everyone who imports this one.
func TestModuleReplacesNothing(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile(filepath.Join(loadModule(t).dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}

	if found := regexp.MustCompile(`(?m)^\s*replace\b.*$`).Find(text); found != nil {
		t.Errorf("go.mod has %q: it works here and breaks for everyone who imports the module", found)
	}
}
