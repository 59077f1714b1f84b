package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where no key can be kept, a start says which directory it is, and both ways out.
func TestAKeyThatCannotBeMade(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	_, err := openSigner(&Config{DataDir: file}, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatal("a key was kept in a file")
	}

	for _, want := range []string{file, "--data-dir", "--signing-key-file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}
