package accesslog

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever a client sends, the line that is written is read as the entry that it was: no field ends early, no line breaks.
func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Entry{
			Time:   time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "time"), 0).UTC(),
			User:   rapid.SampledFrom([]string{"", "ada", "ada b", `x] "y`, "a\"b\\c\nd"}).Draw(t, "user"),
			Method: rapid.SampledFrom([]string{"GET", "POST", "X-Y"}).Draw(t, "method"),
			Path:   "/" + strings.ReplaceAll(rapid.String().Draw(t, "path"), "?", ""),
			Query:  rapid.StringMatching(`([a-z"\\=&%20]*[a-z])?`).Draw(t, "query"),
			Proto:  rapid.SampledFrom([]string{"HTTP/1.0", "HTTP/1.1", "HTTP/2.0"}).Draw(t, "proto"),
			Status: rapid.IntRange(0, 999).Draw(t, "status"), Bytes: rapid.Int64Range(0, 1<<62).Draw(t, "bytes"),
			Referer:   rapid.String().Filter(func(s string) bool { return s != "-" }).Draw(t, "referer"),
			UserAgent: rapid.String().Filter(func(s string) bool { return s != "-" }).Draw(t, "agent"),
		}
		want.Path = strings.TrimRight(want.Path, " ")
		want.ClientOf(netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "ip"))))

		line := string(AppendCombined(nil, &want))
		if strings.Count(line, "\n") != 1 {
			t.Fatalf("%q is not one line", line)
		}

		got, err := NewReader("log", strings.NewReader(line)).Next()
		want.Line = 1

		if err != nil || got != want {
			t.Fatalf("%q was read as\n%+v, %v; want\n%+v", line, got, err, want)
		}
	})
}

func TestAJSONLineSaysWhatACombinedOneCannot(t *testing.T) {
	s := Served{
		Entry: Entry{
			Time: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), Client: "192.0.2.1", Method: "GET", Host: "api.example",
			Path: "/a\"\n", Proto: "HTTP/1.1", Status: 429, Bytes: 7, UserAgent: "\xff",
		},
		Took: 1500 * time.Microsecond, Upstream: "http://127.0.0.1:1", Reason: "over_limit",
	}

	line := AppendJSON(nil, &s)
	if strings.Count(string(line), "\n") != 1 {
		t.Errorf("%q is not one line", line)
	}

	var got served
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}

	want := served{
		Time: s.Time, Client: "192.0.2.1", Method: "GET", Host: "api.example", Path: "/a\"\n", Proto: "HTTP/1.1", Status: 429, Bytes: 7,
		DurationMs: 1.5, UserAgent: "\ufffd", Upstream: "http://127.0.0.1:1", Reason: "over_limit",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
