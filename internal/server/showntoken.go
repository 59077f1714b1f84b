package server

import (
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/rpc"
)

// shownToken is the token that coordinators are shown: the first of a file that may have several, as servers accept them.
type shownToken struct {
	path  string
	log   *slog.Logger
	token atomic.Pointer[string]
}

// open reads the token for the first time. The error is a *UsageError.
func (t *shownToken) open() error {
	token, err := t.read()
	t.token.Store(&token)

	return err
}

// refresh reads it again; a bad file leaves the last good one in use. Only the follower calls it.
func (t *shownToken) refresh() {
	token, err := t.read()

	switch {
	case err != nil:
		t.log.Error("the changed token is refused: the last good one stays in use", "path", t.path, "error", err)
	case token != t.show():
		t.token.Store(&token)
		t.log.Info("token in use", "path", t.path)
	}
}

// show returns the token as it is now.
func (t *shownToken) show() string { return *t.token.Load() }

func (t *shownToken) read() (string, error) {
	text, err := readBounded(t.path, maxTokens)
	if err == nil {
		_, err = rpc.ParseTokens(text)
	}

	if err != nil {
		return "", unusable("--coordinator-token-file", err)
	}

	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return line, nil
		}
	}

	return "", usage("--coordinator-token-file: %s has no token", t.path)
}
