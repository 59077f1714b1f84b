package memory

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// markEvery is how often the mark is renewed: what happened up to as long after
// the last one is taken as lost with it.
const markEvery = 250 * time.Millisecond

// errMark says that a mark is there and does not read as one.
var errMark = errors.New("the mark of the last run is not readable")

// markText is a mark at the store's time now. It has the same length always, so it is overwritten in place.
func markText(now int64) string {
	body := fmt.Sprintf("leaseway-alive 1 %020d", now)

	return fmt.Sprintf("%s %08x\n", body, crc32.ChecksumIEEE([]byte(body)))
}

// lastMark returns the store's time of the last mark (µs), and whether there is
// one. errMark and all others come with true: somebody was alive.
func (d *directory) lastMark() (now int64, found bool, err error) {
	text, err := os.ReadFile(filepath.Join(d.path, markFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}

	if err != nil {
		return 0, true, err
	}

	if _, err := fmt.Sscanf(string(text), "leaseway-alive 1 %d", &now); err != nil || markText(now) != string(text) {
		return 0, true, errMark
	}

	return now, true, nil
}

// writeMark says on the disk that the store is alive at now. It is synced,
// because after a loss of power the last mark must not be an old one.
func (d *directory) writeMark(now int64) error {
	if d.mark == nil {
		f, err := os.OpenFile(filepath.Join(d.path, markFile), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}

		d.mark = f
	}

	if _, err := d.mark.WriteAt([]byte(markText(now)), 0); err != nil {
		return err
	}

	return d.mark.Sync()
}

// removeMark says that the store has stopped and lost nothing.
func (d *directory) removeMark() error {
	if err := os.Remove(filepath.Join(d.path, markFile)); err != nil {
		return err
	}

	return d.sync()
}

// keepMark renews the mark until ctx is done. A disk that refuses is told of
// once, and again once it has recovered.
func (s *Store) keepMark(ctx context.Context) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()

	failing := false

	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		err := s.dir.writeMark(s.now())
		if (err != nil) == failing {
			continue
		}

		failing = err != nil
		if failing {
			s.log.ErrorContext(ctx, "memory store: the mark cannot be renewed; after a crash too little would count as lost",
				slog.Any("error", err))
		} else {
			s.log.InfoContext(ctx, "memory store: the mark is renewed again")
		}
	}
}
