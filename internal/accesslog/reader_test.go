package accesslog

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const goodLine = `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /v1/orders HTTP/1.1" 200 5120 "-" "curl/8"`

// readAll reads to the end and returns the error that ended it, nil for io.EOF.
func readAll(r *Reader) (entries []Entry, err error) {
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
}

func open(t *testing.T, path ...string) *os.File {
	t.Helper()
	f, err := os.Open(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestReaderReadsAMixedLog(t *testing.T) {
	r := NewReader("mixed.log", open(t, "testdata", "mixed.log"))
	entries, err := readAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, strings.Join([]string{e.Client, e.Method, e.Path}, " "))
	}
	want := []string{
		"203.0.113.7 GET /v1/orders",
		"203.0.113.7 POST /v1/orders",
		"2001:db8::42 HEAD /",
		"crawler.search.example GET /robots.txt",
		"198.51.100.9  ",
		"198.51.100.9  ",
		"198.51.100.10 GET /status",
		"198.51.100.11 GET /cut",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if line := entries[3].Line; line != 5 {
		t.Errorf("the entry after the blank line is on line %d, want 5", line)
	}
	if !entries[1].Time.Before(entries[0].Time) {
		t.Error("entries were put in another order than the log's")
	}

	n, examples := r.Skipped()
	if n != 2 || len(examples) != 2 {
		t.Fatalf("skipped %d lines with %d examples, want 2 and 2", n, len(examples))
	}
	if e := examples[0]; e.Line != 9 || e.Reason != errShape.Error() {
		t.Errorf("first skipped: %v", e)
	}
	if e := examples[1]; e.Line != 10 || e.Reason != errJSON.Error() {
		t.Errorf("second skipped: %v", e)
	}
}

func TestReaderBoundsALine(t *testing.T) {
	// padded is a good line of n bytes, its newline included.
	padded := func(n int) string {
		return goodLine[:len(goodLine)-1] + strings.Repeat("x", n-len(goodLine)-1) + "\"\n"
	}
	for _, tc := range []struct {
		name     string
		log      string
		entries  int
		skipped  int
		lastLine int
	}{
		{"at the bound", padded(MaxLine-1) + goodLine, 2, 0, 2},
		{"newline just fits", padded(MaxLine) + goodLine, 2, 0, 2},
		{"over the bound", padded(MaxLine+1) + goodLine, 1, 1, 2},
		{"far over the bound", padded(10*MaxLine) + goodLine + "\n", 1, 1, 2},
		{"over the bound at the end", goodLine + "\n" + strings.TrimSuffix(padded(3*MaxLine), "\n"), 1, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// A bufio.Reader with a larger buffer must not become the bound.
			r := NewReader("long.log", bufio.NewReaderSize(strings.NewReader(tc.log), 20*MaxLine))
			entries, err := readAll(r)
			if err != nil {
				t.Fatal(err)
			}
			n, examples := r.Skipped()
			if len(entries) != tc.entries || n != tc.skipped || entries[len(entries)-1].Line != tc.lastLine {
				t.Errorf("%d entries, %d skipped, want %d and %d: %v", len(entries), n, tc.entries, tc.skipped, entries)
			}
			for _, e := range examples {
				if e.Reason != errTooLong.Error() || len(e.Text) != maxExcerpt {
					t.Errorf("example of %d bytes: %s", len(e.Text), e.Reason)
				}
			}
		})
	}
}

func TestReaderTakesAnyLineEnding(t *testing.T) {
	for name, log := range map[string]string{
		"LF":               goodLine + "\n" + goodLine + "\n",
		"CRLF":             goodLine + "\r\n" + goodLine + "\r\n",
		"no final newline": goodLine + "\n" + goodLine,
		"BOM":              "\ufeff" + goodLine + "\n" + goodLine,
		"blank lines":      "\n\n" + goodLine + "\n \t\n" + goodLine + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader("x.log", iotest.OneByteReader(strings.NewReader(log)))
			entries, err := readAll(r)
			if n, _ := r.Skipped(); err != nil || n != 0 || len(entries) != 2 {
				t.Fatalf("%d entries, %d skipped, %v", len(entries), n, err)
			}
			for _, e := range entries {
				if e.Client != "203.0.113.7" || e.UserAgent != "curl/8" {
					t.Errorf("client %q, user agent %q", e.Client, e.UserAgent)
				}
			}
		})
	}
}

func TestReaderKeepsTheFirstBadLines(t *testing.T) {
	r := NewReader("junk.log", strings.NewReader(strings.Repeat("\x1b[31mjunk\n", 1000)))
	if _, err := readAll(r); err != nil {
		t.Fatal(err)
	}
	n, examples := r.Skipped()
	if n != 1000 || len(examples) != maxExamples {
		t.Fatalf("skipped %d with %d examples, want 1000 and %d", n, len(examples), maxExamples)
	}
	got := examples[4].Error()
	if !strings.HasPrefix(got, "junk.log:5: ") || !strings.HasSuffix(got, `: "\x1b[31mjunk"`) {
		t.Errorf("error reads %s", got)
	}
	examples[0].Line = 99
	if _, again := r.Skipped(); again[0].Line != 1 {
		t.Error("a caller can write into the Reader's examples")
	}
}

func TestReaderReportsAFailingReader(t *testing.T) {
	broken := errors.New("disk on fire")
	// The half line would parse: it ends after its status and bytes.
	half, _, _ := strings.Cut(goodLine, ` "-"`)
	r := NewReader("x.log", io.MultiReader(strings.NewReader(goodLine+"\n"+half), iotest.ErrReader(broken)))
	entries, err := readAll(r)
	if len(entries) != 1 || !errors.Is(err, broken) || !strings.Contains(err.Error(), "x.log, line 2") {
		t.Fatalf("%d entries, error %v", len(entries), err)
	}
	if _, again := r.Next(); !errors.Is(again, broken) {
		t.Errorf("after the failure Next returns %v", again)
	}
}

// A published log of 10,000 real requests; it is not part of the repository.
func TestReaderReadsARealLog(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "data", "apache_combined.log")
	if _, err := os.Stat(path); err != nil {
		t.Skip("the real log is not beside this checkout:", err)
	}
	r := NewReader(path, open(t, path))
	entries, err := readAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if n, examples := r.Skipped(); n != 0 || len(entries) != 10_000 {
		t.Fatalf("%d entries, %d skipped: %v", len(entries), n, examples)
	}
	clients, methods := map[string]bool{}, map[string]int{}
	for _, e := range entries {
		clients[e.IP.String()] = true
		methods[e.Method]++
		if !strings.HasPrefix(e.Path, "/") || e.Time.Year() != 2015 || e.Status < 200 || e.Status > 500 {
			t.Fatalf("line %d: %+v", e.Line, e)
		}
	}
	if len(clients) != 1753 || methods["GET"] != 9952 || methods["HEAD"] != 42 || methods["POST"] != 5 || methods["OPTIONS"] != 1 {
		t.Errorf("%d clients, methods %v", len(clients), methods)
	}
}

func TestReaderAllocatesOncePerEntry(t *testing.T) {
	const lines = 1000
	log := strings.Repeat(goodLine+"\n", lines)
	perRun := testing.AllocsPerRun(5, func() {
		if entries := countEntries(NewReader("x.log", strings.NewReader(log))); entries != lines {
			t.Fatalf("%d entries", entries)
		}
	})
	if perRun > lines+10 { // ten for the Reader itself
		t.Errorf("%.0f allocations for %d entries, want one each", perRun, lines)
	}
}

func countEntries(r *Reader) (n int) {
	for {
		if _, err := r.Next(); err != nil {
			return n
		}
		n++
	}
}

func BenchmarkReader(b *testing.B) {
	log := strings.Repeat(goodLine+"\n", 1000)
	b.ReportAllocs()
	b.SetBytes(int64(len(log)))
	var entries int
	for b.Loop() {
		entries += countEntries(NewReader("x.log", strings.NewReader(log)))
	}
	b.ReportMetric(float64(b.Elapsed())/float64(max(entries, 1))/float64(time.Nanosecond), "ns/entry")
}
