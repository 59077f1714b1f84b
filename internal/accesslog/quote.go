package accesslog

import "strings"

// quoted cuts a field in double quotes off s and returns it without the quotes, its escapes not yet decoded. The quote
// that closes it is not escaped, and stands before a space or the end: some servers escape nothing, and a quote inside
// a user agent is then followed by something else. Without such a quote the field is all of s, and closed is false.
// If s does not start with a quote there is no field, and rest is s.
func quoted(s string) (value, rest string, closed bool) {
	if s == "" || s[0] != '"' {
		return "", s, false
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++ // whatever it escapes is no end
		case '"':
			if i+1 == len(s) || s[i+1] == ' ' {
				return s[1:i], strings.TrimLeft(s[i+1:], " "), true
			}
		}
	}
	return s[1:], "", false
}

// unescape decodes the escapes of Apache (\" \\ \n \r \t \v \b and \xhh) and nginx (\xHH only). A backslash
// before anything else is itself: it comes from a server that escapes nothing. Only a string with escapes allocates.
func unescape(s string) string {
	i := strings.IndexByte(s, '\\')
	if i < 0 {
		return s
	}
	out := make([]byte, i, len(s)) // decoding only shrinks
	copy(out, s)
	for i < len(s) {
		c, size := unescapeOne(s[i:])
		out = append(out, c)
		i += size
	}
	return string(out)
}

// unescapeOne decodes the byte that s, which is not empty, starts with, and says how many bytes of s it took.
func unescapeOne(s string) (c byte, size int) {
	if s[0] != '\\' || len(s) < 2 {
		return s[0], 1
	}
	switch s[1] {
	case '"', '\\':
		return s[1], 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'v':
		return '\v', 2
	case 'b':
		return '\b', 2
	case 'x':
		if len(s) < 4 {
			break
		}
		high, ok1 := hexDigit(s[2])
		low, ok2 := hexDigit(s[3])
		if ok1 && ok2 {
			return high<<4 | low, 4
		}
	}
	return s[0], 1
}

func hexDigit(c byte) (value byte, ok bool) {
	switch {
	case isDigit(c):
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}
