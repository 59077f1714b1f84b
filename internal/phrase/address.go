package phrase

import "strings"

// Address is a URL, or what was meant to be one, without the password in it: what errors and lists repeat of it. That a password
// has characters in it which end the host of a URL is why it was no URL, so all up to the last "@" is looked at.
func Address(text string) string {
	start := 0
	if i := strings.Index(text, "://"); i >= 0 {
		start = i + len("://")
	}
	end := strings.LastIndexByte(text, '@')
	if end < start {
		return text
	}
	name, _, secret := strings.Cut(text[start:end], ":")
	if !secret {
		return text
	}
	return text[:start] + name + ":xxxxx" + text[end:] // as (*url.URL).Redacted has it
}
