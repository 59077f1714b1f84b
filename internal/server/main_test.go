package server

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what should come at once.
const patience = 20 * time.Second

// eventually waits until ok, and fails with what was missing.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()

	deadline := time.NewTimer(patience)
	defer deadline.Stop()

	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()

	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("after %v still not: %s", patience, what)
		case <-tick.C:
		}
	}
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.String()
}

func (b *buffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

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
