package proctest

import (
	"bytes"
	"log/slog"
	"sync"
)

// Transcript is what a process wrote, or a logger, and can be read meanwhile. The zero value is empty.
type Transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to it.
func (l *Transcript) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.Write(b)
}

// String returns all of it.
func (l *Transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.String()
}

// Logger returns one that writes to it what is of a level, or worse.
func (l *Transcript) Logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}
