package rule

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// append appends s in the one spelling that stands for all its others. It allocates only to fold
// or compose letters beyond ASCII.
func (n Normalize) append(dst []byte, s string) []byte {
	if n.Trim {
		s = strings.TrimSpace(s)
	}
	if n == (Normalize{Trim: n.Trim}) {
		return append(dst, s...)
	}
	if isASCII(s) {
		if n.Casefold {
			return appendLower(dst, s)
		}
		return append(dst, s...)
	}
	// Both steps leave bytes that are no UTF-8 as they are: keys that differ only there must not meet.
	if n.Casefold {
		s = cases.Fold().String(s)
	}
	if n.NFC {
		s = norm.NFC.String(s) // AppendString would have dst in the heap for all keys
	}
	return append(dst, s...)
}

// isASCII says whether the quick way will do.
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// appendLower appends s with the ASCII letters in lower case.
func appendLower(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
