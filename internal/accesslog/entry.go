package accesslog

import (
	"net/netip"
	"strings"
	"time"
)

// Entry is one request as a server logged it. A field that the log leaves out,
// or writes as "-", is the zero value.
//
// Escapes of the log are decoded, so a field can hold any byte a client sent,
// line breaks included: check before sending one on. The strings share the
// memory of their line; clone what outlives the entry.
type Entry struct {
	Time      time.Time  // UTC, to the precision of the log (a second, as a rule)
	IP        netip.Addr // of the client, IPv4 if mapped, no zone; invalid when the log has a hostname
	Client    string     // the client as logged: an address or a hostname
	User      string     // that the server authenticated; may contain spaces
	Method    string     // "" when what came was no HTTP request, such as TLS on a plain port
	Path      string     // percent-encoded as it came, without the query; "" without a method and for CONNECT
	Query     string     // what follows the first "?", not decoded
	Proto     string     // such as "HTTP/1.1"; "" for HTTP/0.9
	Host      string     // from the target, else the virtual host in front of the line; without its port
	Referer   string
	UserAgent string
	Status    int   // 0–999; servers log more than the registered ones, such as 499 and 000
	Bytes     int64 // of the response
	Line      int   // in the log, counted from 1
}

// setRequest takes the request line apart. What is not HTTP leaves Method, Path, Query and Proto empty: it was
// a request to the server all the same, from a client at a time, so the entry stands.
func (e *Entry) setRequest(request string) {
	method, rest, found := strings.Cut(request, " ")
	if !found || !isToken(method) {
		return
	}
	// The target is all between the first and the last space: nginx logs "GET /a b HTTP/1.1" as it came.
	target, proto := rest, ""
	if i := strings.LastIndexByte(rest, ' '); i >= 0 && isProto(rest[i+1:]) {
		target, proto = rest[:i], rest[i+1:]
	}
	target = strings.Trim(target, " ") // other space is a byte that the client sent and the log escaped

	switch {
	case method == "CONNECT": // its target is an authority, such as example.org:443
		if target == "" || strings.ContainsAny(target, "/ ") {
			return
		}
		e.Host = withoutPort(target)
	case strings.HasPrefix(target, "/"), target == "*":
		e.setTarget(target)
	default:
		scheme, after, absolute := strings.Cut(target, "://")
		if !absolute || !isToken(scheme) {
			return
		}
		e.setAbsolute(after)
	}
	e.Method, e.Proto = method, proto
}

func (e *Entry) setTarget(target string) {
	e.Path, e.Query, _ = strings.Cut(target, "?")
}

// setAbsolute takes the target of a request to a proxy, from its authority on. Its host wins over any other (RFC 9112, 3.2.2).
func (e *Entry) setAbsolute(target string) {
	end := strings.IndexAny(target, "/?")
	if end < 0 {
		end = len(target)
	}
	authority := target[:end]
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	if authority != "" {
		e.Host = withoutPort(authority)
	}
	e.setTarget(target[end:])
	if e.Path == "" {
		e.Path = "/"
	}
}

// isToken reports whether s may be a method (RFC 9110, 5.6.2). The bound keeps out junk that is a token by accident.
func isToken(s string) bool {
	if s == "" || len(s) > 32 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && !isDigit(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return true
}

// isProto reports whether s looks like "HTTP/1.1" or "RTSP/1.0": letters, a slash, a version.
func isProto(s string) bool {
	name, version, found := strings.Cut(s, "/")
	if !found || name == "" || version == "" {
		return false
	}
	for i := range len(name) {
		if !isLetter(name[i]) {
			return false
		}
	}
	for i := range len(version) {
		if !isDigit(version[i]) && version[i] != '.' {
			return false
		}
	}
	return true
}

// withoutPort cuts ":80" off a host; the brackets of an IPv6 literal stay.
func withoutPort(host string) string {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.IndexByte(host[i:], ']') >= 0 {
		return host
	}
	if strings.IndexByte(host, ':') < i && host[0] != '[' {
		return host // an IPv6 address without brackets has no port
	}
	return host[:i]
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
