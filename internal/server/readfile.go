package server

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// readBounded reads a file of at most limit bytes. The error names the file.
func readBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the path is a setting
	if err != nil {
		return nil, err
	}
	defer file.Close()

	info, err := file.Stat()
	if err != nil {
		return nil, err
	}

	if !info.Mode().IsRegular() && info.Mode()&os.ModeNamedPipe == 0 {
		return nil, fmt.Errorf("%s is no file", path)
	}

	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}

	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}

	// A file that grew or shrank meanwhile is being written: half of it might even make sense.
	after, err := file.Stat()
	if err != nil {
		return nil, err
	}

	if info.Mode().IsRegular() && after.Size() != int64(len(text)) {
		return nil, fmt.Errorf("%s: %w", path, errUnsettled)
	}

	return text, nil
}

var errUnsettled = errors.New("is being written")
