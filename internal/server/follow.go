package server

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a file must be left alone before it is read: an editor or a deployment touches it several times.
	settle = 50 * time.Millisecond
	// settleMost bounds that for a file which is touched all the time.
	settleMost = time.Second
	// pollEvery is how often files are looked at without any notice: network file systems give none, and neither does a
	// symbolic link whose target, elsewhere, is edited.
	pollEvery = 2 * time.Second
)

// follower calls back when a file may have changed: edited in place, renamed over, deleted and made again, or reached over
// symbolic links that now lead elsewhere. It watches directories, since a watch on a file ends with the file.
//
//	notice of a directory ──▶ settle ──▶ is a file another one? ──▶ call back
//	tick, SIGHUP ────────────────────────▲
type follower struct {
	files []followed
	log   *slog.Logger
	poll  time.Duration    // pollEvery, but for tests
	look  <-chan os.Signal // looks at once; nil for never
}

// followed is one file, what to do when it changed, and how it looked before.
type followed struct {
	path    string
	changed func()
	seen    look
}

// look is what tells a file from the one that was there before. The zero look is that of a file that does not exist.
type look struct {
	id       os.FileInfo
	size     int64
	modified time.Time
}

func lookAt(path string) look {
	info, err := os.Stat(path)
	if err != nil {
		return look{}
	}

	return look{id: info, size: info.Size(), modified: info.ModTime()}
}

func (l look) same(other look) bool {
	if l.id == nil || other.id == nil {
		return l.id == nil && other.id == nil
	}

	return os.SameFile(l.id, other.id) && l.size == other.size && l.modified.Equal(other.modified)
}

// follow adds a file, as it is now. It must not be called once run was.
func (f *follower) follow(path string, changed func()) {
	f.files = append(f.files, followed{path: path, changed: changed, seen: lookAt(path)})
}

// run calls back, one file at a time, until ctx ends.
func (f *follower) run(ctx context.Context) {
	if len(f.files) == 0 && f.look == nil {
		return
	}

	var (
		events   <-chan fsnotify.Event // nil without a watcher, so that only ticks come
		failures <-chan error
	)

	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.log.Warn("cannot watch files: changes take effect within seconds instead of at once", "error", err)
	} else {
		events, failures = watcher.Events, watcher.Errors
		defer watcher.Close()
	}

	f.watch(watcher)

	tick := time.NewTicker(f.poll)
	defer tick.Stop()

	// Files may have changed between follow and the watch.
	f.compare(false)

	var (
		quiet <-chan time.Time
		first time.Time
	)

	for {
		select {
		case <-ctx.Done():
			return
		case <-events: // never closed before run returns
			if quiet == nil {
				first = time.Now()
			}

			quiet = time.After(min(settle, max(0, settleMost-time.Since(first))))
		case err := <-failures: // notices were lost; the next tick compares
			f.log.Debug("notices of changed files were lost", "error", err)
		case <-quiet:
			quiet = nil

			f.watch(watcher) // a directory on the way may be another one now
			f.compare(true)
		case <-f.look:
			f.log.Info("asked to look at the files that are followed", "files", len(f.files))
			f.watch(watcher)
			f.compare(true)
		case <-tick.C:
			f.watch(watcher)
			f.compare(false)
		}
	}
}

// watch watches the directory of every file, and of what it links to. Watching one again changes nothing; one that does not
// exist yet is tried again at the next tick.
func (f *follower) watch(watcher *fsnotify.Watcher) {
	if watcher == nil {
		return
	}

	for i := range f.files {
		path := f.files[i].path

		if err := watcher.Add(filepath.Dir(path)); err != nil {
			f.log.Debug("cannot watch a directory", "path", filepath.Dir(path), "error", err)
		}

		if target, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(target) != filepath.Dir(path) {
			if err := watcher.Add(filepath.Dir(target)); err != nil {
				f.log.Debug("cannot watch a directory", "path", filepath.Dir(target), "error", err)
			}
		}
	}
}

// compare calls back for every file that looks different. After a notice it calls back for those that look the same, too:
// two edits within one tick of the file system's clock leave no trace. What is called back compares contents.
func (f *follower) compare(noticed bool) {
	for i := range f.files {
		file := &f.files[i]

		now := lookAt(file.path)
		if same := now.same(file.seen); !same || noticed && now.id != nil {
			file.seen = now
			file.changed()
		}
	}
}
