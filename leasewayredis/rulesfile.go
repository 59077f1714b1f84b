package leasewayredis

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/leaseway/leaseway/rule"
)

// readEvery is how often a rule file is looked at.
const readEvery = 2 * time.Second

// rulesFile puts the rules of a file in force, and again when its content has
// changed. A content that is bad is told once, and leaves the last good one in force.
type rulesFile struct {
	path  string
	apply func(*rule.Set) (version uint64, err error)
	log   *slog.Logger
	last  []byte // that was judged
}

// read judges the file if it is another one than before.
func (f *rulesFile) read() error {
	text, err := f.content()
	if err != nil || f.last != nil && bytes.Equal(text, f.last) {
		return err
	}

	f.last = append([]byte{}, text...) // not nil, even if empty

	if len(bytes.TrimSpace(text)) == 0 {
		return fmt.Errorf("%s is empty (to have no rules, write: rules: [])", f.path)
	}

	set, err := rule.Parse(f.path, text)
	if err != nil {
		return err
	}

	_, err = f.apply(set)

	return err
}

func (f *rulesFile) content() ([]byte, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	text, err := io.ReadAll(io.LimitReader(file, rule.MaxDocument+1))
	if err == nil && len(text) > rule.MaxDocument {
		err = fmt.Errorf("%s is larger than %d bytes (write fewer rules)", f.path, rule.MaxDocument)
	}

	return text, err
}

// follow reads the file every two seconds until ctx ends.
func (f *rulesFile) follow(ctx context.Context) {
	ticker := time.NewTicker(readEvery)
	defer ticker.Stop()

	said := "" // of a file that cannot be read, which each look finds again

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}

		before := f.last

		switch err := f.read(); {
		case err != nil && err.Error() != said:
			said = err.Error()
			f.log.Error("the rule file is refused: the last good rules stay in force", "path", f.path, "error", err)
		case err == nil && !bytes.Equal(before, f.last):
			f.log.Info("rules in force", "path", f.path)

			fallthrough
		case err == nil:
			said = ""
		}
	}
}
