package rule

import (
	"bytes"
	"strings"
)

// Two paths that an upstream takes as the same resource have one clean form. Escapes of bytes that may
// stand unescaped are decoded, other escapes are in upper case, bytes that may not stand are escaped, empty and dot segments are
// resolved, query and fragment are dropped. The clean form has no slash at its end, so that the root is "".

// Bytes that may stand in a path segment (RFC 3986, pchar), as bit sets of the ASCII halves.
const (
	segmentLow = 1<<'!' | 1<<'$' | 1<<'&' | 1<<'\'' | 1<<'(' | 1<<')' | 1<<'*' | 1<<'+' | 1<<',' | 1<<'-' | 1<<'.' |
		(1<<10-1)<<'0' | 1<<':' | 1<<';' | 1<<'='
	segmentHigh = 1<<('@'-64) | (1<<26-1)<<('A'-64) | 1<<('_'-64) | (1<<26-1)<<('a'-64) | 1<<('~'-64)
)

// inSegment says whether c may stand unescaped in a path segment. It does not branch: where digits stand among letters, a processor
// would guess wrong at every other byte.
func inSegment(c byte) bool {
	return [4]uint64{segmentLow, segmentHigh}[c>>6]>>(c&63)&1 != 0
}

// cleanPath gives the clean form, and whether the path ended in a slash. It allocates only for a path that is not clean.
func cleanPath(path string) (clean string, slash bool) {
	if !isClean(path) {
		return rewritePath(path)
	}
	if n := len(path) - 1; path[n] == '/' {
		return path[:n], true
	}
	return path, false
}

// isClean says whether the clean form is the path itself, but for one slash at the end.
func isClean(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	start := 0 // of the current segment
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case c == '/':
			if i > 0 && (i == start || isDots(path[start:i])) {
				return false
			}
			start = i + 1
		case inSegment(c):
		case c == '%' && canonicalEscape(path[i:]):
			i += 2
		default:
			return false
		}
	}
	return !isDots(path[start:])
}

// isDots says whether a segment means another one.
func isDots(segment string) bool { return segment == "." || segment == ".." }

// canonicalEscape says whether s starts with an escape that the clean form keeps as it is.
func canonicalEscape(s string) bool {
	c, ok := unescape(s)
	return ok && !inSegment(c) && !lowerHex(s[1]) && !lowerHex(s[2])
}

// lowerHex says whether a hexadecimal digit is a letter in lower case.
func lowerHex(c byte) bool { return c >= 'a' }

// unescape decodes the escape at the start of s.
func unescape(s string) (c byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	high, ok1 := hexDigit(s[1])
	low, ok2 := hexDigit(s[2])
	return high<<4 | low, ok1 && ok2
}

// hexDigit gives the value of a hexadecimal digit.
func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}

// rewritePath builds the clean form of a path that is not clean.
func rewritePath(path string) (clean string, slash bool) {
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	out := make([]byte, 0, len(path)+16)
	for rest, more := path, true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		start := len(out)
		out = appendSegment(append(out, '/'), segment)
		slash = false
		switch string(out[start+1:]) {
		case "", ".":
			out, slash = out[:start], true
		case "..":
			out, slash = out[:max(0, bytes.LastIndexByte(out[:start], '/'))], true
		}
	}
	return string(out), slash
}

// appendSegment appends the clean form of one segment.
func appendSegment(dst []byte, segment string) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		if decoded, ok := unescape(segment[i:]); ok {
			c = decoded
			i += 2
		}
		if inSegment(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}
