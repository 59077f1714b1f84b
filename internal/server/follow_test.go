package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leaseway/leaseway/rule"
)

// document has one rule with the given limit.
func document(limit string) string {
	return "rules:\n  - {id: r, limit: " + limit + ", window: 1s}\n"
}

// reloading is a rule file in a directory, followed by the real follower, and the limit that is in force.
type reloading struct {
	*ruleFile

	log   *buffer
	limit atomic.Int64
}

func newReloading(t *testing.T, path string, poll time.Duration) *reloading {
	t.Helper()

	r := &reloading{log: &buffer{}}
	r.ruleFile = &ruleFile{path: path, log: r.log.logger(), apply: func(set *rule.Set) (uint64, error) {
		if len(set.Rules) == 1 {
			r.limit.Store(set.Rules[0].Limit)
		} else {
			r.limit.Store(0)
		}

		return uint64(r.good.Load() + 1), nil
	}}

	if err := r.open(); err != nil {
		t.Fatal(err)
	}

	f := &follower{log: r.ruleFile.log, poll: poll}
	f.follow(path, r.refresh)

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})

	go func() {
		defer close(done)
		f.run(ctx)
	}()

	t.Cleanup(func() {
		cancel()
		<-done
	})

	return r
}

func (r *reloading) await(t *testing.T, limit int64) {
	t.Helper()
	eventually(t, "the changed limit is in force", func() bool { return r.limit.Load() == limit && !r.failed.Load() })
}

// never is a poll that cannot be what found a change.
const never = time.Hour

func must(t *testing.T, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}

// replace makes text the content of path in one step, so that it is seen whole and once.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	must(t, os.Rename(path+".new", path))
}

func TestRulesAreReloadedHoweverTheFileChanges(t *testing.T) {
	t.Run("edited in place", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		write(t, path, document("10"))
		r := newReloading(t, path, never)

		write(t, path, document("20"))
		r.await(t, 20)
		write(t, path, document("30")) // the same size, perhaps the same tick of the file system's clock
		r.await(t, 30)
	})

	t.Run("renamed over", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "rules.yaml")
		write(t, path, document("10"))
		r := newReloading(t, path, never)

		for _, limit := range []string{"20", "30"} { // the second one has to be noticed on the new file
			write(t, filepath.Join(dir, "new"), document(limit))
			must(t, os.Rename(filepath.Join(dir, "new"), path))
			r.await(t, int64(limit[0]-'0')*10)
		}
	})

	t.Run("deleted and made again", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		write(t, path, document("10"))
		r := newReloading(t, path, never)

		must(t, os.Remove(path))
		eventually(t, "a warning that it is gone", func() bool { return strings.Contains(r.log.String(), "it is gone; put it back") })

		if r.limit.Load() != 10 || !r.failed.Load() {
			t.Errorf("limit %d, failed %v: want the last good rules, and the metric set", r.limit.Load(), r.failed.Load())
		}

		write(t, path, document("10"))
		r.await(t, 10) // the same content again mends it
		write(t, path, document("20"))
		r.await(t, 20)
	})

	t.Run("directory behind a symbolic link swapped, as Kubernetes does", func(t *testing.T) {
		dir := t.TempDir()
		for _, limit := range []string{"10", "20"} {
			must(t, os.Mkdir(filepath.Join(dir, limit), 0o700))
			write(t, filepath.Join(dir, limit, "rules.yaml"), document(limit))
		}

		must(t, os.Symlink("10", filepath.Join(dir, "..data")))

		path := filepath.Join(dir, "rules.yaml")
		must(t, os.Symlink(filepath.Join("..data", "rules.yaml"), path))
		r := newReloading(t, path, never)

		must(t, os.Symlink("20", filepath.Join(dir, "..new")))
		must(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
		r.await(t, 20)

		// The new target's directory is watched now.
		write(t, filepath.Join(dir, "20", "rules.yaml"), document("30"))
		r.await(t, 30)
	})

	t.Run("link to a file elsewhere that is edited", func(t *testing.T) {
		target := file(t, document("10"))
		path := filepath.Join(t.TempDir(), "rules.yaml")
		must(t, os.Symlink(target, path))
		r := newReloading(t, path, never)

		write(t, target, document("20"))
		r.await(t, 20)
	})

	t.Run("without any notice, by looking", func(t *testing.T) {
		// A link to a link: the directory in between is not watched.
		target := file(t, document("10"))
		between := filepath.Join(t.TempDir(), "link")
		path := filepath.Join(t.TempDir(), "rules.yaml")
		must(t, os.Symlink(target, between))
		must(t, os.Symlink(between, path))
		r := newReloading(t, path, 5*time.Millisecond)

		other := file(t, document("200"))
		must(t, os.Remove(between))
		must(t, os.Symlink(other, between))
		r.await(t, 200)
	})
}

func TestBadRulesLeaveTheLastGoodOnes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, document("10"))
	r := newReloading(t, path, never)

	replace(t, path, document("-1"))
	eventually(t, "the change is refused", r.failed.Load)
	eventually(t, "the line that says so", func() bool { return strings.Count(r.log.String(), "level=ERROR") == 1 })

	_, line, _ := strings.Cut(r.log.String(), "level=ERROR")
	for _, part := range []string{path + ":2:", "limit", "^"} {
		if !strings.Contains(line, part) {
			t.Errorf("the log does not say %q: %s", part, line)
		}
	}

	if r.limit.Load() != 10 {
		t.Errorf("limit %d is in force, not the last good one", r.limit.Load())
	}

	// What was judged is not judged again: ten more looks, and still one line.
	for range 10 {
		must(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	}

	replace(t, path, "")
	eventually(t, "an empty file is refused", func() bool { return strings.Contains(r.log.String(), "is empty") })

	if got := strings.Count(r.log.String(), "level=ERROR"); got != 2 {
		t.Errorf("%d lines for 2 bad contents", got)
	}

	replace(t, path, "rules: []\n")
	r.await(t, 0)
	replace(t, path, document("40"))
	r.await(t, 40)

	if good, refused := r.good.Load(), r.refused.Load(); good != 2 || refused != 2 {
		t.Errorf("counted %d good and %d refused contents, want 2 and 2", good, refused)
	}
}

func TestBadRulesAtTheStartListEveryError(t *testing.T) {
	path := file(t, "rules:\n  - {id: a, limit: 0, window: 1s}\n  - {id: b, limit: 5, windw: 1s}\n")
	f := &ruleFile{path: path, log: (&buffer{}).logger(), apply: func(*rule.Set) (uint64, error) {
		t.Error("bad rules were put in force")

		return 0, nil
	}}

	err := f.open()
	for _, part := range []string{path + ":2:", path + ":3:"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, which does not name %s", err, part)
		}
	}
}

// A notice may never come, and a poll comes late: a signal is at once.
func TestASignalLooksNow(t *testing.T) {
	look := make(chan os.Signal)
	seen := make(chan struct{}, 3)
	path := file(t, "text")
	log := &buffer{}

	f := &follower{log: log.logger(), poll: never, look: look}
	f.follow(path, func() { seen <- struct{}{} })

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})

	go func() {
		defer close(done)
		f.run(ctx)
	}()

	look <- syscall.SIGHUP

	<-seen
	cancel()
	<-done

	if n := strings.Count(log.String(), "asked to look"); n != 1 {
		t.Errorf("%d lines in the log:\n%s", n, log)
	}
}

func TestRulesThatCannotBeReadAreARefusalToStart(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		f := &ruleFile{path: path, log: (&buffer{}).logger()}
		if err := f.open(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, which does not name %s", err, path)
		}
	}
}
