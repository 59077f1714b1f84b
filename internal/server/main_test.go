package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/proctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what should come at once.
const patience = proctest.Patience

// eventually waits until ok, and fails with what was missing.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	proctest.Eventually(t, what, ok)
}

// buffer is a log that can be read while it is written.
type buffer struct{ proctest.Transcript }

func (b *buffer) logger() *slog.Logger { return b.Logger(slog.LevelDebug) }

func write(t *testing.T, path, text string) {
	t.Helper()

	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// file writes text into a file of its own.
func file(t *testing.T, text string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), "file")
	write(t, path, text)

	return path
}

// dataDir is where a server may make a data directory: one that exists may be open to others, as the umask has it.
func dataDir(t *testing.T) string {
	t.Helper()

	return filepath.Join(t.TempDir(), "data")
}
