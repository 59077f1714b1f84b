package accesslog

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// What can be wrong with a line of the combined format. Each says what is expected, since the
// usual cause is a log of another format.
const (
	errJSON    = faultError("line is JSON: only the common and the combined format are read")
	errShape   = faultError(`no [time] "request" found: expected client ident user [02/Jan/2006:15:04:05 -0700] "GET / HTTP/1.1" 200 1234`)
	errClient  = faultError("no client before the [time]")
	errTime    = faultError("time is not of the form 02/Jan/2006:15:04:05 -0700")
	errRequest = faultError("request has no closing quote")
	errStatus  = faultError(`status after the request is not three digits or "-"`)
	errBytes   = faultError(`bytes after the status are not a number or "-"`)
)

const timeLayout = "02/Jan/2006:15:04:05 -0700"

// parseCombined reads one line of the common or the combined format:
//
//	[vhost[:port] ]client [ident ][user ][time] "request" status bytes[ "referer" "user agent"[ …]]
//
// What follows the user agent is for the server's owner, and ignored.
func parseCombined(line string) (Entry, error) {
	if line != "" && line[0] == '{' {
		return Entry{}, errJSON
	}
	// A user's name may hold spaces and brackets, but no bare quote: servers escape those. So the first
	// `] "` ends the time, whatever a client called itself, and the last bracket before it begins it.
	end := strings.Index(line, `] "`)
	if end < 0 {
		return Entry{}, errShape
	}
	begin := strings.LastIndexByte(line[:end], '[')
	if begin < 0 {
		return Entry{}, errShape
	}

	var e Entry
	at, err := time.Parse(timeLayout, line[begin+1:end])
	if err != nil {
		return Entry{}, errTime
	}
	e.Time = at.UTC()
	if !e.setHead(strings.TrimRight(line[:begin], " ")) {
		return Entry{}, errClient
	}
	request, rest, closed := quoted(line[end+len("] "):])
	if !closed {
		return Entry{}, errRequest
	}
	e.setRequest(unescape(request))
	if rest, err = e.setOutcome(rest); err != nil {
		return Entry{}, err
	}
	// From here on nothing is worth losing the request over: a line that was cut short keeps what it has.
	referer, rest, _ := quoted(rest)
	userAgent, _, _ := quoted(rest)
	e.Referer, e.UserAgent = unescape(present(referer)), unescape(present(userAgent))
	return e, nil
}

// setHead takes what stands before the time, and reports whether there is a client in it.
func (e *Entry) setHead(head string) bool {
	first, rest := field(head)
	if first == "" || first == "-" {
		return false
	}
	// Apache's vhost_combined, and nginx setups that copy it, put the virtual host in front. There the client comes
	// second, where the others have an ident: "-", practically always.
	second, afterSecond := field(rest)
	if second != "" && second != "-" {
		_, isIP := parseIP(second)
		third, _ := field(afterSecond)
		if isIP || third == "-" && afterSecond != "-" { // `client ident -` is no virtual host
			e.Host = withoutPort(first)
			first, rest = second, afterSecond
		}
	}
	e.Client = first
	e.IP, _ = parseIP(first)

	ident, user := field(rest)
	if user == "" {
		user = ident // `client - [time]`: one of the two is missing, and ident is the one nobody logs
	}
	if user != `""` { // how Apache writes a user with an empty name
		e.User = unescape(present(user))
	}
	return true
}

// setOutcome takes status and bytes, and returns what follows them.
func (e *Entry) setOutcome(s string) (rest string, err error) {
	status, rest := field(s)
	if status != "-" {
		n, err := strconv.ParseUint(status, 10, 16)
		if err != nil || len(status) != 3 {
			return "", errStatus
		}
		e.Status = int(n)
	}
	size, rest := field(rest)
	if size != "-" {
		n, err := strconv.ParseUint(size, 10, 63)
		if err != nil {
			return "", errBytes
		}
		e.Bytes = int64(n)
	}
	return rest, nil
}

// parseIP is netip.ParseAddr in the form that keys are made of: mapped IPv4 is IPv4, and a zone, which
// only means something on the server, is gone.
func parseIP(s string) (addr netip.Addr, ok bool) {
	if s == "" || !isDigit(s[len(s)-1]) && strings.IndexByte(s, ':') < 0 {
		return netip.Addr{}, false // a hostname: spares the error that ParseAddr would allocate
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.WithZone("").Unmap(), true
}

// field cuts the first run of bytes other than spaces off s.
func field(s string) (first, rest string) {
	s = strings.TrimLeft(s, " ")
	first, rest, _ = strings.Cut(s, " ")
	return first, strings.TrimLeft(rest, " ")
}

// present is s, or "" for the "-" with which a log says that there was nothing.
func present(s string) string {
	if s == "-" {
		return ""
	}
	return s
}
