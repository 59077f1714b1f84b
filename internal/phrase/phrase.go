// Package phrase says values as a sentence says them: spans of time, "2 minutes", "an hour", and addresses without their
// passwords. What callers read in a refusal is made of the first, by leasewayhttp and leasewaygrpc above; errors of the second.
package phrase

import (
	"strconv"
	"time"
)

// unit is a duration that people have a word for.
type unit struct {
	name    string
	article string
	length  time.Duration
}

func units() [5]unit {
	return [...]unit{
		{"day", "a", 24 * time.Hour},
		{"hour", "an", time.Hour},
		{"minute", "a", time.Minute},
		{"second", "a", time.Second},
		{"millisecond", "a", time.Millisecond},
	}
}

// AppendSpan says a duration in the largest unit that it is whole in: 90 s is "90 seconds", 120 s "2 minutes".
func AppendSpan(dst []byte, d time.Duration) []byte {
	for _, u := range units() {
		if d < u.length || d%u.length != 0 {
			continue
		}
		dst = strconv.AppendInt(dst, int64(d/u.length), 10)
		dst = append(append(dst, ' '), u.name...)
		if d > u.length {
			dst = append(dst, 's')
		}
		return dst
	}
	return append(dst, d.String()...)
}

// AppendEvery says how often a quota is granted: "a minute", "every 90 seconds".
func AppendEvery(dst []byte, window time.Duration) []byte {
	for _, u := range units() {
		if window == u.length {
			return append(append(append(dst, u.article...), ' '), u.name...)
		}
	}
	return AppendSpan(append(dst, "every "...), window)
}
