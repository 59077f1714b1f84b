package phrase

import (
	"testing"
	"time"
)

func TestSpansAreSaidInWords(t *testing.T) {
	t.Parallel()

	for d, want := range map[time.Duration][2]string{
		time.Second:             {"1 second", "a second"},
		5 * time.Second:         {"5 seconds", "every 5 seconds"},
		90 * time.Second:        {"90 seconds", "every 90 seconds"},
		time.Minute:             {"1 minute", "a minute"},
		2 * time.Hour:           {"2 hours", "every 2 hours"},
		time.Hour:               {"1 hour", "an hour"},
		24 * time.Hour:          {"1 day", "a day"},
		7 * 24 * time.Hour:      {"7 days", "every 7 days"},
		1500 * time.Millisecond: {"1500 milliseconds", "every 1500 milliseconds"},
		5 * time.Microsecond:    {"5µs", "every 5µs"},
	} {
		if got := [2]string{string(AppendSpan(nil, d)), string(AppendEvery(nil, d))}; got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
