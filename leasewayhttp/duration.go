package leasewayhttp

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

// inWords says a duration in the largest unit that it is whole in: 90 s is "90 seconds", 120 s "2 minutes".
func inWords(d time.Duration) string {
	for _, u := range units() {
		if d >= u.length && d%u.length == 0 {
			if d == u.length {
				return "1 " + u.name
			}
			return strconv.FormatInt(int64(d/u.length), 10) + " " + u.name + "s"
		}
	}
	return d.String()
}

// perWindow says how often a quota is granted: "a minute", "every 90 seconds".
func perWindow(window time.Duration) string {
	for _, u := range units() {
		if window == u.length {
			return u.article + " " + u.name
		}
	}
	return "every " + inWords(window)
}
