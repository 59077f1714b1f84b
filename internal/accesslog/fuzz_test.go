package accesslog

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever the bytes, every line that is not blank is an entry or is counted, and what an entry says is in range.
func FuzzReader(f *testing.F) {
	mixed, err := os.ReadFile(filepath.Join("testdata", "mixed.log"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(mixed)
	for line := range bytes.Lines(mixed) {
		f.Add(line)
	}
	f.Add([]byte("\ufeff\r\n\x00\n[] \"\" \n"))
	f.Add([]byte(`a [03/Mar/2024:09:15:00 +0000] "GET http://:@/ HTTP/1.1" 200 1 "\`))
	f.Add([]byte(`: : : [03/Mar/2024:09:15:00 +0000] "CONNECT : HTTP/1.1" 200 1 "\x" "\x0`))

	f.Fuzz(func(t *testing.T, log []byte) {
		r := NewReader("fuzz.log", bytes.NewReader(log))
		entries, err := readAll(r)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for line := range bytes.Lines(bytes.TrimPrefix(log, []byte("\ufeff"))) {
			if len(bytes.TrimSpace(line)) > 0 {
				want++
			}
		}
		if n, _ := r.Skipped(); len(entries)+n != want {
			t.Fatalf("%d entries and %d skipped of %d lines", len(entries), n, want)
		}
		last := 0
		for _, e := range entries {
			if e.Line <= last {
				t.Fatalf("line %d after %d", e.Line, last)
			}
			last = e.Line
			checkEntry(t, e)
		}
	})
}

func checkEntry(t *testing.T, e Entry) {
	t.Helper()
	switch {
	case e.Client == "", e.Client == "-", strings.Contains(e.Client, " "):
		t.Fatalf("client %q", e.Client)
	case e.IP.IsValid() && (e.IP.Is4In6() || e.IP.Zone() != ""):
		t.Fatalf("address %v is not in the form of a key", e.IP)
	case e.Status < 0 || e.Status > 999 || e.Bytes < 0:
		t.Fatalf("status %d, bytes %d", e.Status, e.Bytes)
	case e.Method == "" && (e.Path != "" || e.Query != "" || e.Proto != ""):
		t.Fatalf("no method, but %+v", e)
	case e.Method != "" && e.Method != http.MethodConnect && e.Path != "*" && !strings.HasPrefix(e.Path, "/"):
		t.Fatalf("path %q", e.Path)
	case strings.Contains(e.Path, "?"):
		t.Fatalf("query left in path %q", e.Path)
	}
}

// What a client sends and Apache escapes comes back byte for byte.
func FuzzEscapedFields(f *testing.F) {
	f.Add("/a", "curl/8", "mary")
	f.Add("/\"\\\x00\xff", `say "hi" \`, `x] "GET / HTTP/1.1" 200 1`)
	f.Add("/] \"", `\x22" "`, `[01/Jan/2000:00:00:00 +0000] "`)

	f.Fuzz(func(t *testing.T, path, userAgent, user string) {
		// What the format cannot say: spaces end an unquoted field, and "-" means nothing.
		path = "/" + strings.NewReplacer(" ", "", "?", "").Replace(path)
		user = strings.Trim(user, " -")
		if userAgent == "-" || len(path)+len(userAgent)+len(user) > MaxLine/5 {
			return
		}
		line := "203.0.113.7 - " + escapeLikeApache(user) + ` [03/Mar/2024:09:15:00 +0000] "GET ` + escapeLikeApache(path) +
			` HTTP/1.1" 200 12 "-" "` + escapeLikeApache(userAgent) + "\"\n"
		e, err := NewReader("fuzz.log", strings.NewReader(line)).Next()
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.Path != path || e.UserAgent != userAgent || e.User != user || e.Client != "203.0.113.7" || e.Status != 200 {
			t.Fatalf("%q: %+v", line, e)
		}
	})
}

// escapeLikeApache is ap_escape_logitem: what is not printable ASCII, quotes and backslashes.
func escapeLikeApache(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
