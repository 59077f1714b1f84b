package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// heard is a Watcher that remembers what was said.
type heard struct{ lines []string }

func (h *heard) Say(line string)                         { h.lines = append(h.lines, line) }
func (*heard) Follow(ctx context.Context, _ *Live) error { <-ctx.Done(); return nil }

func logFile(t *testing.T, lines ...string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

func logLine(client string, second int, request string) string {
	return fmt.Sprintf(`%s - - [17/May/2015:10:05:%02d +0000] `, client, second) + `"` + request + `" 200 12`
}

func replayed(t *testing.T, path string) (*traffic, []shot) {
	t.Helper()

	tr, err := replay(t.Context(), Config{Log: path, Duration: 10 * time.Second, Seed: 1, Watcher: &heard{}})
	if err != nil {
		t.Fatal(err)
	}

	var shots []shot

	for {
		s, more := tr.next()
		if !more {
			return tr, shots
		}

		shots = append(shots, s)
	}
}

func TestALogIsSentInItsOrderAndCompressed(t *testing.T) {
	tr, shots := replayed(t, logFile(t,
		logLine("10.0.0.1", 0, "GET /a HTTP/1.1"),
		logLine("10.0.0.2", 4, "GET /d HTTP/1.1"), // ended before those below, began after
		logLine("10.0.0.2", 2, "POST /b HTTP/1.1"),
		logLine("2001:db8:1:2::7", 2, "HEAD /c?x=1 HTTP/1.1"),
		logLine("2001:db8:1:2::8", 4, "GET /e HTTP/1.1"), // the same network, the same caller
	))

	// Five seconds become ten; the requests of one second are spread over it.
	var got []string
	for _, s := range shots {
		got = append(got, fmt.Sprintf("%v %s %s", s.at, s.target.method, s.target.path))
	}

	want := "0s GET /a, 4s POST /b, 5s HEAD /c, 8s GET /d, 9s GET /e"
	if all := strings.Join(got, ", "); all != want {
		t.Errorf("got %s\nwant %s", all, want)
	}

	if len(tr.callers) != 3 || tr.callers[2].key != "2001:db8:1:2::/64" || shots[2].caller != shots[4].caller {
		t.Errorf("callers %+v", tr.callers)
	}

	if from := shots[2].target.header.Get("X-Forwarded-For"); from != "2001:db8:1:2::7" {
		t.Errorf("forwarded for %q", from)
	}
}

func TestWhatCannotBeSentIsCountedAndSaid(t *testing.T) {
	tr, shots := replayed(t, logFile(t,
		logLine("10.0.0.1", 0, "GET /a HTTP/1.1"),
		logLine("10.0.0.1", 0, `\x16\x03\x01`),
		logLine("10.0.0.1", 0, "CONNECT example.org:443 HTTP/1.1"),
		logLine("10.0.0.1", 0, "OPTIONS * HTTP/1.1"),
		logLine("host.example", 0, "GET /a HTTP/1.1"),
		"this is no log line",
	))

	if len(shots) != 1 {
		t.Errorf("%d requests, want 1", len(shots))
	}

	said := strings.Join(tr.notes, "\n")
	for _, want := range []string{"1 lines are in no known format", "3 entries are no HTTP requests", "1 entries have a host name", "access.log:6:"} {
		if !strings.Contains(said, want) {
			t.Errorf("the notes do not say %q: %s", want, said)
		}
	}
}

func TestLogsThatCannotBeReplayed(t *testing.T) {
	for name, test := range map[string]struct{ path, want string }{
		"missing":          {filepath.Join(t.TempDir(), "none.log"), "no such file"},
		"empty":            {logFile(t), "the file has no lines"},
		"only empty lines": {logFile(t, "", "", ""), "the file has only empty lines"},
		"another format":   {logFile(t, `{"request": "GET /"}`), "JSON"},
		"is no file":       {t.TempDir(), "is a directory"},
		"only host names":  {logFile(t, logLine("host.example", 0, "GET / HTTP/1.1")), "host name"},
	} {
		_, err := replay(t.Context(), Config{Log: test.path, Duration: MinDuration, Watcher: &heard{}})
		if err == nil || !strings.Contains(err.Error(), test.want) || !errors.As(err, new(*LogError)) || !strings.HasPrefix(err.Error(), "--log: ") {
			t.Errorf("%s: %v, want one that names --log and says %q", name, err, test.want)
		}
	}
}

func TestALogIsCutToWhatCanBeSent(t *testing.T) {
	lines := make([]string, 20_000)
	for i := range lines {
		lines[i] = logLine("10.0.0.1", i/400, "GET / HTTP/1.1")
	}

	path := logFile(t, lines...)

	tr, err := replay(t.Context(), Config{Log: path, Duration: MinDuration, Watcher: &heard{}})
	if err != nil {
		t.Fatal(err)
	}

	if said := strings.Join(append(tr.about, tr.notes...), "\n"); !strings.Contains(said, "15000 requests of 1 client") ||
		!strings.Contains(said, "more than the 15000 requests that can be sent") {
		t.Errorf("said %s", said)
	}
}

// A log can hold any bytes; what is sent must be one request, and mean the same bytes.
func TestAnyTargetIsARequestThatArrivesWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := "/" + string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "path"))
		query := string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "query"))

		tg, ok := newTarget(path, query)
		if !ok {
			t.Fatalf("%q was left out", path)
		}

		tg.method, tg.header = http.MethodGet, http.Header{}

		var wire bytes.Buffer
		if err := tg.request("127.0.0.1:80").Write(&wire); err != nil {
			t.Fatal(err)
		}

		got, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatalf("%q?%q: %v", path, query, err)
		}

		if again, _ := newTarget(got.URL.EscapedPath(), got.URL.RawQuery); again.path != tg.path || again.query != tg.query {
			t.Fatalf("%q?%q arrived as %q", path, query, got.URL)
		}

		if wire.Len() > 0 && strings.Contains(wire.String(), "GET") {
			t.Fatalf("%q?%q made a second request", path, query)
		}
	})
}
