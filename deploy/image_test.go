//go:build linux

package deploy

import (
	"bytes"
	"debug/elf"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/leaseway/leaseway/internal/proctest"
)

// nobody is the user of the image.
const nobody = 65532

// instruction is one of a Dockerfile, such as RUN with its text.
type instruction struct{ name, text string }

func instructions(t *testing.T, path string) (list []instruction) {
	t.Helper()

	text := strings.ReplaceAll(read(t, path), "\\\n", " ")
	for line := range strings.Lines(text) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(name, "#") {
			list = append(list, instruction{name, strings.TrimSpace(rest)})
		}
	}

	return list
}

// No engine builds the image here, so its steps are run without one: on the files that the engine would be given, and the outcome
// as the user that it would run as.
func TestImage(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	out := filepath.Join(root, "out")
	source := filepath.Join(root, "src")
	steps := instructions(t, "docker/Dockerfile")

	copyContext(t, source)

	for _, step := range steps {
		// The modules are here, in the cache of whoever tests.
		if step.name == "RUN" && step.text != "go mod download" {
			shell := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(step.text, "/out", out))
			shell.Dir = source
			shell.Env = append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH)

			if said, err := shell.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", step.text, err, said)
			}
		}

		// What is copied from the build is there, but for what its base image has.
		from, copied := strings.CutPrefix(step.text, "--from=build ")
		if path, _, _ := strings.Cut(strings.TrimPrefix(from, "--chown=65532:65532 "), " "); copied && strings.HasPrefix(path, "/out/") &&
			!isThere(filepath.Join(root, path)) {
			t.Errorf("%s %s: the build leaves no such file", step.name, step.text)
		}
	}

	for _, want := range []instruction{
		{"FROM", "scratch"}, {"USER", "65532:65532"}, {"ENV", "LEASEWAY_DATA_DIR=/var/lib/leaseway"}, {"ENTRYPOINT", `["/leaseway"]`},
	} {
		if !slices.Contains(steps, want) {
			t.Errorf("there is no %s %s", want.name, want.text)
		}
	}

	program := filepath.Join(out, "leaseway")

	static(t, program)
	serveAs(t, root, program)
}

// copyContext copies what an engine is given: all but what .dockerignore names.
func copyContext(t *testing.T, to string) {
	t.Helper()

	ignored := strings.Fields(read(t, "../.dockerignore"))

	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		name, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}

		switch {
		case slices.Contains(ignored, name) && entry.IsDir():
			return filepath.SkipDir
		case slices.Contains(ignored, name) || !entry.IsDir() && !entry.Type().IsRegular():
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}

		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		return os.WriteFile(filepath.Join(to, name), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// static fails unless a program needs nothing of the system: the image has nothing.
func static(t *testing.T, program string) {
	t.Helper()

	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = file.Close() }()

	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			t.Error("the program needs a loader, and libraries")
		}
	}
}

// serveAs runs the program as the image does, in nothing but its directory.
func serveAs(t *testing.T, root, program string) {
	t.Helper()

	address := freeAddress(t)
	rulesFile := filepath.Join(root, "rules.yaml")
	write(t, rulesFile, "rules: [{id: r, keyBy: user, limit: 1, window: 1h}]")

	cmd := exec.Command(program, "serve", "--rules", rulesFile, "--listen", address, "--grpc-listen", "127.0.0.1:0", "--insecure")
	cmd.Env = []string{"LEASEWAY_DATA_DIR=" + filepath.Join(root, "out", "data")}

	p := startAs(t, cmd, root, rulesFile)
	p.Answers(t, address)

	for _, want := range []string{`"allowed":true`, `"allowed":false`} {
		resp, err := http.Post("http://"+address+"/v1/check", "application/json", strings.NewReader(`{"attributes": {"user": "ada"}}`))
		if err != nil {
			t.Fatal(err)
		}

		var text bytes.Buffer

		_, _ = text.ReadFrom(resp.Body)
		_ = resp.Body.Close()

		if !strings.Contains(text.String(), want) {
			t.Errorf("got %d %s, want %s", resp.StatusCode, &text, want)
		}
	}

	p.Finish(t)

	if kept, err := os.ReadDir(filepath.Join(root, "out", "data")); err != nil || len(kept) == 0 {
		t.Errorf("after a stop the data directory has %v, %v", kept, err)
	}
}

// startAs starts a command as the user of the image if this is root, who alone may.
func startAs(t *testing.T, cmd *exec.Cmd, root string, files ...string) *proctest.Process {
	t.Helper()

	if os.Geteuid() != 0 {
		return proctest.Start(t, cmd)
	}

	for _, path := range append(files, filepath.Join(root, "out", "data")) {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}

	// Directories of tests are closed to others.
	for dir := root; dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}

	return proctest.Start(t, cmd)
}
