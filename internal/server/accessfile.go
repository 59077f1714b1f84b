package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/leaseway/leaseway/internal/accesslog"
)

// The formats of access logs.
const (
	formatCombined = "combined"
	formatJSON     = "json"
)

const (
	// writtenEvery is how long lines may wait in memory.
	writtenEvery = time.Second
	// accessBuffer is how many bytes of them.
	accessBuffer = 64 << 10
)

// accessFile is an access log: lines are gathered in memory and written every second, or when there are many. Whoever moves
// the file away finds the lines from then on in a new one, with no signal needed.
type accessFile struct {
	path string // "" for standard output
	json bool

	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	line []byte

	lines, lost int64 // lost are lines that could not be written, as to a full disk
}

// openAccessFile opens the log that the settings name; nil without one. The error is a *UsageError.
func openAccessFile(p *ProxyConfig, stdout io.Writer) (*accessFile, error) {
	if p.AccessLog == "" {
		return nil, nil //nolint:nilnil // no log, and nothing wrong
	}

	a := &accessFile{json: p.AccessLogFormat == formatJSON}

	if p.AccessLog == "-" {
		a.out = bufio.NewWriterSize(stdout, accessBuffer)

		return a, nil
	}

	a.path = p.AccessLog

	file, err := openToAppend(a.path)
	if err != nil {
		return nil, unusable("--access-log", err)
	}

	a.file, a.out = file, bufio.NewWriterSize(file, accessBuffer)

	return a, nil
}

// openToAppend opens path, which only this user and group may read: addresses are in it.
func openToAppend(path string) (*os.File, error) {
	const ownerAndGroup = 0o640

	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, ownerAndGroup) //nolint:gosec // the path is a setting
}

// Record adds a line.
func (a *accessFile) Record(s accesslog.Served) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.json {
		a.line = accesslog.AppendJSON(a.line[:0], &s)
	} else {
		a.line = accesslog.AppendCombined(a.line[:0], &s.Entry)
	}

	a.lines++

	if a.out.Available() < len(a.line) {
		a.flush()
	}

	_, _ = a.out.Write(a.line) // its error is sticky, and flush sees it
}

// flush writes what was gathered. A failure costs these lines, never a request.
func (a *accessFile) flush() {
	if err := a.out.Flush(); err != nil {
		a.lost++

		a.out.Reset(a.target())
	}
}

func (a *accessFile) target() io.Writer {
	if a.file == nil {
		return io.Discard // standard output that failed once is closed
	}

	return a.file
}

// run writes the lines until ctx ends.
func (a *accessFile) run(ctx context.Context) {
	tick := time.NewTicker(writtenEvery)
	defer tick.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.tend()
		}
	}
}

// tend writes what was gathered, and begins a new file where the old one was moved away.
func (a *accessFile) tend() {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.flush()

	if a.path == "" {
		return
	}

	is, err := a.file.Stat()
	if err != nil {
		return
	}

	if there, err := os.Stat(a.path); err == nil && os.SameFile(is, there) {
		return
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return // the next tick sees better, perhaps
	}

	file, err := openToAppend(a.path)
	if err != nil {
		return // lines go on into the old one
	}

	_ = a.file.Close()
	a.file = file
	a.out.Reset(file)
}

// close writes the last lines.
func (a *accessFile) close() {
	if a == nil {
		return
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	a.flush()

	if a.file != nil {
		_ = a.file.Close()
	}
}

// counts are how many lines there were, and how often some could not be written.
func (a *accessFile) counts() (lines, lost int64) {
	a.mu.Lock()
	defer a.mu.Unlock()

	return a.lines, a.lost
}
