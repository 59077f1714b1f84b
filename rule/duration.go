package rule

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// unit is a unit of time as documents write it.
type unit struct {
	name string
	span time.Duration
}

// units are the units from the largest to the smallest. A day is 86,400 seconds.
func units() [7]unit {
	const day = 24 * time.Hour
	return [...]unit{
		{"w", 7 * day}, {"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
		{"ms", time.Millisecond}, {"us", time.Microsecond},
	}
}

// durationError says what is wrong with a span of time, and how to write it.
type durationError struct{ message, fix string }

// parseDuration reads "500ms", "1.5s", "1m", "1d", or several together, "1h30m", to the microsecond.
func parseDuration(text string) (time.Duration, *durationError) {
	const example = `write a number and a unit, such as 500ms, 60s, 1m, 1h, 1d or 1w`
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, &durationError{quote(text) + " has no unit", "write " + shorten(text) + "s for seconds, or another unit: ms, m, h, d, w"}
	}
	if strings.HasPrefix(text, "-") {
		return 0, &durationError{quote(text) + " is negative", example}
	}
	var total time.Duration
	for rest := text; rest != ""; {
		end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if end <= 0 {
			return 0, &durationError{quote(text) + " is no span of time", example}
		}
		number := rest[:end]
		rest = rest[end:]
		end = strings.IndexFunc(rest, func(r rune) bool { return r >= '0' && r <= '9' || r == '.' })
		if end < 0 {
			end = len(rest)
		}
		name := rest[:end]
		rest = rest[end:]
		span, err := scale(number, name)
		if err != nil {
			return 0, &durationError{quote(text) + err.message, err.fix}
		}
		if span > math.MaxInt64-total {
			return 0, &durationError{quote(text) + " is too long", "write at most 366d"}
		}
		total += span
	}
	return total, nil
}

// scale gives number × the unit of that name, exactly.
func scale(number, name string) (time.Duration, *durationError) {
	span := time.Duration(0)
	for _, u := range units() {
		if u.name == name {
			span = u.span
		}
	}
	switch {
	case name == "mo" || name == "month" || name == "y":
		return 0, &durationError{
			" is not the same span each time",
			"write days, such as 30d; only a rule with algorithm: fixed_window can say window: 1mo",
		}
	case span == 0:
		return 0, &durationError{
			" has the unknown unit " + quote(strings.TrimSpace(name)),
			"the units are ms, s, m, h, d, w, right after the number",
		}
	}
	whole, fraction, _ := strings.Cut(number, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0, &durationError{" is no span of time", "write digits before the unit, and at most one point among them"}
	}
	if n > math.MaxInt64/int64(span) {
		return 0, &durationError{" is too long", "write at most 366d"}
	}
	total := time.Duration(n) * span
	for _, digit := range fraction {
		if digit == '.' || span%10 != 0 {
			return 0, &durationError{" is finer than a microsecond", "write a smaller unit"}
		}
		span /= 10
		total += time.Duration(digit-'0') * span
	}
	if total%time.Microsecond != 0 {
		return 0, &durationError{" is finer than a microsecond", "write a smaller unit"}
	}
	return total, nil
}

// formatDuration writes a span of whole microseconds in the largest unit that divides it.
func formatDuration(d time.Duration) string {
	for _, u := range units() {
		if d%u.span == 0 {
			return strconv.FormatInt(int64(d/u.span), 10) + u.name
		}
	}
	return fmt.Sprintf("%dus", d.Microseconds())
}
