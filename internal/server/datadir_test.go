//go:build unix

package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server refuses to start over what other users could have put there, before it believes or changes any of it.
func TestDataThatOthersCanWriteIsRefused(t *testing.T) {
	for _, row := range []struct {
		name string
		mode os.FileMode
		args []string
	}{
		{".", 0o777, nil},
		{".", 0o1777, nil},
		{"coordinator", 0o770, nil},
		{"coordinator/signing.key", 0o602, nil},
		{"holder", 0o777, []string{"--coordinator", "127.0.0.1:1"}},
	} {
		dir := dataDir(t)
		must(t, os.MkdirAll(filepath.Join(dir, "coordinator"), 0o700))
		must(t, os.MkdirAll(filepath.Join(dir, "holder"), 0o700))
		write(t, filepath.Join(dir, "coordinator", "signing.key"), "planted")
		must(t, os.Chmod(filepath.Join(dir, row.name), row.mode)) // #nosec G302 -- that is what must be refused

		config, err := load(append([]string{"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir", dir}, row.args...), nil)
		must(t, err)

		var wrong *UsageError

		err = Run(t.Context(), config, &buffer{})
		if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || !strings.Contains(err.Error(), "chmod go-w "+filepath.Join(dir, row.name)) {
			t.Errorf("%s with mode %o: got %v, want one usage error with the fix", row.name, row.mode, err)
		}
	}
}

func TestDataOfAnotherUserIsRefused(t *testing.T) {
	dir, self := t.TempDir(), os.Geteuid()
	must(t, os.Chmod(dir, 0o700))

	config := &Config{DataDir: dir}
	if err := config.distrust(dir, self); err != nil {
		t.Errorf("one's own is refused: %v", err)
	}

	other := self + 1
	if self == 0 { // what the superuser owns is believed, so it must be somebody else's
		must(t, os.Chown(dir, 1, -1))

		other = self
	}

	if err := config.distrust(dir, other); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("got %v", err)
	}
}
