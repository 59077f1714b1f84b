package accesslog

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// AppendCombined appends e as a line of the combined format, its line ending included. What a client could break a line or a
// field with is escaped, so that a Reader finds the entry as it was, but for what the format has no place for: the host, and
// what is finer than a second.
func AppendCombined(dst []byte, e *Entry) []byte {
	dst = appendBare(dst, e.Client)
	dst = append(dst, " - "...)
	dst = appendBare(dst, e.User)
	dst = append(dst, " ["...)
	dst = e.Time.UTC().AppendFormat(dst, timeLayout)
	dst = append(dst, `] "`...)
	dst = e.appendRequest(dst)
	dst = append(dst, `" `...)
	dst = appendStatus(dst, e.Status)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, e.Bytes, 10)
	dst = appendQuoted(dst, e.Referer)
	dst = appendQuoted(dst, e.UserAgent)
	return append(dst, '\n')
}

// appendRequest appends the request line. A request that was none is "-".
func (e *Entry) appendRequest(dst []byte) []byte {
	if e.Method == "" {
		return append(dst, '-')
	}
	dst = appendEscaped(dst, e.Method)
	dst = append(dst, ' ')
	if e.Method == http.MethodConnect {
		dst = appendEscaped(dst, e.Host)
	} else {
		dst = appendEscaped(dst, e.Path)
	}
	if e.Query != "" {
		dst = append(dst, '?')
		dst = appendEscaped(dst, e.Query)
	}
	if e.Proto != "" {
		dst = append(dst, ' ')
		dst = appendEscaped(dst, e.Proto)
	}
	return dst
}

// appendStatus keeps to the three digits of the format.
func appendStatus(dst []byte, status int) []byte {
	if status < 0 || status > 999 {
		status = 0
	}
	return append(dst, byte('0'+status/100), byte('0'+status/10%10), byte('0'+status%10))
}

func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, ` "`...)
	if s == "" {
		dst = append(dst, '-')
	}
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// appendBare appends a field that has no quotes. A space in it would begin the next field.
func appendBare(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, '-')
	}
	for i := range len(s) {
		if c := s[i]; c == ' ' || c == '[' || c == ']' {
			dst = appendHex(dst, c)
		} else {
			dst = appendEscaped(dst, s[i:i+1])
		}
	}
	return dst
}

// appendEscaped escapes as Apache does, so that every byte comes back and no line breaks.
func appendEscaped(dst []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c >= 0x7f:
			dst = appendHex(dst, c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func appendHex(dst []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'x', digits[c>>4], digits[c&15])
}

// Served is what a proxy knows of a request beside what the combined format has a place for.
type Served struct {
	Entry

	Took     time.Duration // from the header of the request to the end of the answer
	Upstream string        // the server that answered; "" for none
	Reason   string        // why Leaseway refused it; "" when it did not
}

// served is one line of the JSON format.
type served struct {
	Time       time.Time `json:"time"`
	Client     string    `json:"client"`
	User       string    `json:"user,omitempty"`
	Method     string    `json:"method"`
	Host       string    `json:"host"`
	Path       string    `json:"path"`
	Query      string    `json:"query,omitempty"`
	Proto      string    `json:"proto"`
	Status     int       `json:"status"`
	Bytes      int64     `json:"bytes"`
	DurationMs float64   `json:"durationMs"`
	Referer    string    `json:"referer,omitempty"`
	UserAgent  string    `json:"userAgent,omitempty"`
	Upstream   string    `json:"upstream,omitempty"`
	Reason     string    `json:"reason,omitempty"`
}

// AppendJSON appends s as a line of JSON, its line ending included. Bytes that are no UTF-8 become U+FFFD.
func AppendJSON(dst []byte, s *Served) []byte {
	text, err := json.Marshal(served{
		Time: s.Time.UTC(), Client: s.Client, User: s.User, Method: s.Method, Host: s.Host, Path: s.Path, Query: s.Query, Proto: s.Proto,
		Status: s.Status, Bytes: s.Bytes, DurationMs: float64(s.Took.Microseconds()) / 1e3,
		Referer: s.Referer, UserAgent: s.UserAgent, Upstream: s.Upstream, Reason: s.Reason,
	})
	if err != nil {
		return dst // such a value always marshals, but for a year past 9999
	}
	return append(append(dst, text...), '\n')
}

// ClientOf puts the client's address into e, in the form in which a Reader finds it.
func (e *Entry) ClientOf(ip netip.Addr) {
	if ip.IsValid() {
		e.IP = ip.WithZone("").Unmap()
		e.Client = e.IP.String()
	}
}
