//go:build unix

package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Nobody writes into the pipe: whoever opened it to read would wait for ever, and could not stop.
func TestAPipeIsNoRuleFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	must(t, syscall.Mkfifo(path, 0o600))

	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(path, link))

	for _, name := range []string{path, link} {
		f := &ruleFile{path: name, log: (&buffer{}).logger()}

		var wrong *UsageError
		if err := f.open(); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "is a pipe") {
			t.Errorf("got %v, want a usage error that says what it is", err)
		}
	}
}

func TestAPipeInTheRuleFilesPlaceChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, document("1"))
	r := newReloading(t, path, 10*time.Millisecond)

	must(t, os.Remove(path))
	must(t, syscall.Mkfifo(path, 0o600))
	eventually(t, "the pipe is refused", func() bool {
		return r.failed.Load() && strings.Contains(r.log.String(), "put a regular file there")
	})

	if r.missed.Load() == 0 || r.limit.Load() != 1 {
		t.Errorf("counted %d, and limit %d", r.missed.Load(), r.limit.Load())
	}

	must(t, os.Remove(path))
	write(t, path, document("2"))
	r.await(t, 2)
}
