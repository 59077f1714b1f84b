package accesslog

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Each row changes one thing of this line, and names the fields that change with it.
func TestParseCombined(t *testing.T) {
	plain := Entry{
		Time: time.Date(2024, 3, 3, 9, 15, 0, 0, time.UTC), IP: netip.MustParseAddr("203.0.113.7"), Client: "203.0.113.7",
		Method: "GET", Path: "/a", Proto: "HTTP/1.1", Status: 200, Bytes: 12,
	}
	for _, tc := range []struct {
		name string
		line string
		want func(e *Entry)
	}{
		{"common", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, func(*Entry) {}},
		{
			"combined", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12 "https://x.example/?q=1" "curl/8"`,
			func(e *Entry) { e.Referer, e.UserAgent = "https://x.example/?q=1", "curl/8" },
		},
		{
			"more after the user agent", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12 "-" "curl/8" "10.1.1.1" 0.003`,
			func(e *Entry) { e.UserAgent = "curl/8" },
		},
		{"more after common", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12 0.003 "x"`, func(*Entry) {}},

		// time
		{"zone", `203.0.113.7 - - [03/Mar/2024:01:45:00 -0730] "GET /a HTTP/1.1" 200 12`, func(*Entry) {}},
		{"zone of tomorrow", `203.0.113.7 - - [03/Mar/2024:23:15:00 +1400] "GET /a HTTP/1.1" 200 12`, func(*Entry) {}},

		// client, virtual host and user
		{
			"IPv6", `2001:db8::1 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`,
			func(e *Entry) { e.Client, e.IP = "2001:db8::1", netip.MustParseAddr("2001:db8::1") },
		},
		{
			"mapped IPv4", `::ffff:203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`,
			func(e *Entry) { e.Client = "::ffff:203.0.113.7" },
		},
		{
			"IPv6 with a zone", `fe80::1%eth0 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`,
			func(e *Entry) { e.Client, e.IP = "fe80::1%eth0", netip.MustParseAddr("fe80::1") },
		},
		{
			"hostname", `node7.isp.example - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`,
			func(e *Entry) { e.Client, e.IP = "node7.isp.example", netip.Addr{} },
		},
		{
			"hostname that ends like an address", `host.256 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`,
			func(e *Entry) { e.Client, e.IP = "host.256", netip.Addr{} },
		},
		{"virtual host", `x.example 203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, func(e *Entry) { e.Host = "x.example" }},
		{"virtual host and port", `x.example:80 203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, func(e *Entry) { e.Host = "x.example" }},
		{"virtual host, IPv6", `[::1]:80 203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, func(e *Entry) { e.Host = "[::1]" }},
		{
			"virtual host, client a hostname", `x.example node7.isp.example - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`,
			func(e *Entry) { e.Host, e.Client, e.IP = "x.example", "node7.isp.example", netip.Addr{} },
		},
		{"user", `203.0.113.7 - mary [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, func(e *Entry) { e.User = "mary" }},
		{"user with ident", `203.0.113.7 root mary [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, func(e *Entry) { e.User = "mary" }},
		{"user with ident of no user", `203.0.113.7 root - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, func(*Entry) {}},
		{"user with spaces", `203.0.113.7 - mary ann lee [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, func(e *Entry) { e.User = "mary ann lee" }},
		{"user with an escape", `203.0.113.7 - m\xc3\xa4ry [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, func(e *Entry) { e.User = "märy" }},
		{"user with an empty name", `203.0.113.7 - "" [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, func(*Entry) {}},
		{"no ident", `203.0.113.7 - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, func(*Entry) {}},
		{
			"user that imitates a time and a request",
			`203.0.113.7 - x [01/Jan/2000:00:00:00 +0000] \"GET /evil HTTP/1.1\" 500 1 [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`,
			func(e *Entry) { e.User = `x [01/Jan/2000:00:00:00 +0000] "GET /evil HTTP/1.1" 500 1` },
		},

		// outcome
		{"no bytes", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 304 -`, func(e *Entry) { e.Status, e.Bytes = 304, 0 }},
		{"no status", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" - 12`, func(e *Entry) { e.Status = 0 }},
		{"status 000", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 000 12`, func(e *Entry) { e.Status = 0 }},
		{
			"many bytes", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 9223372036854775807`,
			func(e *Entry) { e.Bytes = 9223372036854775807 },
		},

		// quotes
		{
			"escaped quotes", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a?q=\"x\" HTTP/1.1" 200 12 "-" "say \"hi\" \\"`,
			func(e *Entry) { e.Query, e.UserAgent = `q="x"`, `say "hi" \` },
		},
		{
			"quotes as nginx writes them", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a?q=\x22x\x22 HTTP/1.1" 200 12 "-" "a\x5Cb"`,
			func(e *Entry) { e.Query, e.UserAgent = `q="x"`, `a\b` },
		},
		{
			"bare quotes", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a?q="x" HTTP/1.1" 200 12`,
			nil,
		},
		{
			"bare quotes inside a word", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a?q="x"y HTTP/1.1" 200 12 "-" "a"b"c"`,
			func(e *Entry) { e.Query, e.UserAgent = `q="x"y`, `a"b"c` },
		},
		{
			"user agent cut short", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12 "-" "Mozilla/5.0 (co`,
			func(e *Entry) { e.UserAgent = "Mozilla/5.0 (co" },
		},
		{
			"empty fields", `203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "" 400 0 "" ""`,
			func(e *Entry) { e.Method, e.Path, e.Proto, e.Status, e.Bytes = "", "", "", 400, 0 },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseCombined(tc.line)
			if tc.want == nil {
				if err == nil {
					t.Fatalf("parsed to %+v", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := plain
			tc.want(&want)
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestParseCombinedSaysWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		line string
		want error
	}{
		{`{"status":200}`, errJSON},
		{`203.0.113.7:1 [14/Jan/2015:12:48:57.127] https-in~ srv/n1 1/0/0/3/4 200 739 - - --NN 0/0/0/0/0 0/0 "GET /x HTTP/1.1"`, errShape},
		{`203.0.113.7 - - 03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, errShape},
		{`203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] GET /a HTTP/1.1 200 12`, errShape},
		{`[03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, errClient},
		{`- - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, errClient},
		{`203.0.113.7 - - [2024-03-03T09:15:00Z] "GET /a HTTP/1.1" 200 12`, errTime},
		{`203.0.113.7 - - [31/Feb/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 12`, errTime},
		{`203.0.113.7 - - [03/Mar/2024:24:15:00 +0000] "GET /a HTTP/1.1" 200 12`, errTime},
		{`203.0.113.7 - - [03/Mar/2024:09:15:00] "GET /a HTTP/1.1" 200 12`, errTime},
		{`203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1 200 12`, errRequest},
		{`203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1\" 200 12`, errRequest},
		{`203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1"`, errStatus},
		{`203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 20 12`, errStatus},
		{`203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 2000 12`, errStatus},
		{`203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" +20 12`, errStatus},
		{`203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200`, errBytes},
		{`203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 -1`, errBytes},
		{`203.0.113.7 - - [03/Mar/2024:09:15:00 +0000] "GET /a HTTP/1.1" 200 9223372036854775808`, errBytes},
	} {
		if e, err := parseCombined(tc.line); !errors.Is(err, tc.want) {
			t.Errorf("%s\n  error %v, want %v (%+v)", tc.line, err, tc.want, e)
		}
	}
}

func TestSetRequest(t *testing.T) {
	none := Entry{Host: "vhost"}
	for request, want := range map[string]Entry{
		"GET / HTTP/1.1":                    {Method: "GET", Path: "/", Proto: "HTTP/1.1", Host: "vhost"},
		"GET /a?b?c=/d HTTP/3":              {Method: "GET", Path: "/a", Query: "b?c=/d", Proto: "HTTP/3", Host: "vhost"},
		"GET /a":                            {Method: "GET", Path: "/a", Host: "vhost"},
		"GET /a b/c HTTP/1.1":               {Method: "GET", Path: "/a b/c", Proto: "HTTP/1.1", Host: "vhost"},
		"GET  /a  HTTP/1.1":                 {Method: "GET", Path: "/a", Proto: "HTTP/1.1", Host: "vhost"},
		"GET //a/%2e%2e HTTP/1.1":           {Method: "GET", Path: "//a/%2e%2e", Proto: "HTTP/1.1", Host: "vhost"},
		"M-SEARCH * HTTP/1.1":               {Method: "M-SEARCH", Path: "*", Proto: "HTTP/1.1", Host: "vhost"},
		"PRI * HTTP/2.0":                    {Method: "PRI", Path: "*", Proto: "HTTP/2.0", Host: "vhost"},
		"OPTIONS / RTSP/1.0":                {Method: "OPTIONS", Path: "/", Proto: "RTSP/1.0", Host: "vhost"},
		"CONNECT x.example:443 HTTP/1.1":    {Method: "CONNECT", Proto: "HTTP/1.1", Host: "x.example"},
		"GET http://x.example HTTP/1.1":     {Method: "GET", Path: "/", Proto: "HTTP/1.1", Host: "x.example"},
		"GET http://x.example?q HTTP/1.1":   {Method: "GET", Path: "/", Query: "q", Proto: "HTTP/1.1", Host: "x.example"},
		"GET http://u:p@x:80/a?q HTTP/1.1":  {Method: "GET", Path: "/a", Query: "q", Proto: "HTTP/1.1", Host: "x"},
		"GET http://[::1]:80/a HTTP/1.1":    {Method: "GET", Path: "/a", Proto: "HTTP/1.1", Host: "[::1]"},
		"GET http:///a HTTP/1.1":            {Method: "GET", Path: "/a", Proto: "HTTP/1.1", Host: "vhost"},
		"":                                  none,
		"-":                                 none,
		"GET":                               none,
		"GET HTTP/1.1":                      none,
		" GET / HTTP/1.1":                   none,
		"\x16\x03\x01 \x00 /":               none,
		"t3 12.2.1":                         none,
		"SSH-2.0-Go":                        none,
		"GET /x://y":                        {Method: "GET", Path: "/x://y", Host: "vhost"},
		"GET a/b://c HTTP/1.1":              none,
		"CONNECT /a HTTP/1.1":               none,
		"CONNECT  HTTP/1.1":                 none,
		strings.Repeat("A", 33) + " / HTTP": none,
	} {
		got := none
		got.setRequest(request)
		if got != want {
			t.Errorf("%q\n  got  %+v\n  want %+v", request, got, want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		``:               "",
		`plain`:          "plain",
		`\"\\\n\r\t\v\b`: "\"\\\n\r\t\v\b",
		`\x16\xfF\x00z`:  "\x16\xff\x00z",
		`\x1`:            `\x1`,
		`\xg0\x0g`:       `\xg0\x0g`,
		`C:\dir\`:        `C:\dir\`,
		`\\x41`:          `\x41`,
	} {
		if got := unescape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
