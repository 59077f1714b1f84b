package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FileFix says what to do about err if it is about a file that is not there, or closed to this user, or no file; else "".
func FileFix(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if named, ok := errors.AsType[*fs.PathError](err); ok && !filepath.IsAbs(named.Path) {
			return "check the path, which begins where leaseway was started"
		}

		return "check the path"
	case errors.Is(err, fs.ErrPermission):
		return "let the user that leaseway runs as open it"
	case errors.Is(err, errNotRegular), errors.Is(err, syscall.EISDIR):
		return "name a file"
	default:
		return ""
	}
}

// unusable is a *UsageError about the file that a flag names.
func unusable(flag string, err error) error {
	if fix := FileFix(err); fix != "" {
		return usage("%s: %v (%s)", flag, err, fix)
	}

	return usage("%s: %v", flag, err)
}

// readBounded reads a regular file of at most limit bytes. The error names the file. To read a pipe or a device may never
// end, so they are refused before they are opened: whoever reads here must not hang.
func readBounded(path string, limit int64) ([]byte, error) {
	if info, err := os.Stat(path); err == nil {
		if err := regular(path, info); err != nil {
			return nil, err
		}
	} // otherwise opening says what is wrong

	// If a pipe took its place just now, opening does not wait for who writes into it.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the path is a setting
	if err != nil {
		return nil, err
	}
	defer file.Close()

	info, err := file.Stat()
	if err != nil {
		return nil, err
	}

	if err := regular(path, info); err != nil {
		return nil, err
	}

	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}

	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s %w of %d bytes", path, errTooLarge, limit)
	}

	// A file that grew or shrank meanwhile is being written: half of it might even make sense.
	after, err := file.Stat()
	if err != nil {
		return nil, err
	}

	if after.Size() != int64(len(text)) {
		return nil, fmt.Errorf("%s: %w", path, errUnsettled)
	}

	return text, nil
}

var (
	errUnsettled  = errors.New("is being written")
	errTooLarge   = errors.New("has more than the most")
	errNotRegular = errors.New("not a regular file")
)

// regular refuses what is no regular file, and says what it is.
func regular(path string, info os.FileInfo) error {
	kind := "a device"

	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "a directory"
	case mode&os.ModeNamedPipe != 0:
		kind = "a pipe"
	case mode&os.ModeSocket != 0:
		kind = "a socket"
	}

	return fmt.Errorf("%s is %s, %w", path, kind, errNotRegular)
}
