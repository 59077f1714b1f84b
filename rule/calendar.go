package rule

import (
	"time"
	// Time zones come with the program: a rule that a coordinator took must not be refused by a holder in an image without
	// zone files, which would leave it with the old rules. It costs 450 KiB, and is read only where the system has no files.
	_ "time/tzdata"
)

// Calendar says whether the windows of a rule are those of a calendar.
type Calendar uint8

const (
	// CalendarNone has windows of one length, aligned to the Unix epoch.
	CalendarNone Calendar = iota
	// CalendarDay has the days of the rule's TimeZone, of 23 to 25 hours where clocks are changed.
	CalendarDay
	// CalendarMonth has the months of the rule's TimeZone.
	CalendarMonth
)

// The nominal lengths of windows of a calendar, for what needs one number: a fallback share, a policy header.
const (
	nominalDay   = 24 * time.Hour
	nominalMonth = 30 * nominalDay
)

// maxOffset is more than any zone is ahead of UTC, or ever was (15:13:42, Metlakatla before 1867).
const maxOffset = 25 * time.Hour

// Span is the window that now is in, [start, end), and the end of the one after it. Windows follow each other without a gap
// and never overlap, whatever clocks do. An override's own Window is not looked at; a rule without a window has none, and all
// three are now.
//
// A day or month begins when its date is first shown: at the first of two midnights, or right after a midnight
// that clocks leave out. A date that a zone leaves out has no window.
func (r *Rule) Span(now time.Time) (start, end, next time.Time) {
	switch {
	case r.Calendar != CalendarNone:
		return r.calendarSpan(now)
	case r.Window <= 0:
		return now, now, now
	}
	// In µs, as everything is counted; a remainder below zero is before 1970.
	at, length := now.UnixMicro(), r.Window.Microseconds()
	gone := at % length
	if gone < 0 {
		gone += length
	}
	start = time.UnixMicro(at - gone).UTC()
	return start, start.Add(r.Window), start.Add(2 * r.Window)
}

// calendarSpan counts dates from the one that now shows. Clocks that are turned back over a midnight show a date again whose
// successor has begun, so the date is only where to begin.
func (r *Rule) calendarSpan(now time.Time) (start, end, next time.Time) {
	year, month, day := now.In(r.TimeZone).Date()
	edge := func(n int) time.Time {
		if r.Calendar == CalendarMonth {
			return firstShown(time.Date(year, month+time.Month(n), 1, 0, 0, 0, 0, time.UTC), r.TimeZone)
		}
		return firstShown(time.Date(year, month, day+n, 0, 0, 0, 0, time.UTC), r.TimeZone)
	}
	n := 0
	for start, end = edge(0), edge(1); !end.After(now); end = edge(n + 1) {
		start = end
		n++
	}
	for next = end; !next.After(end); n++ {
		next = edge(n + 2)
	}
	return start, end, next
}

// firstShown is the first instant at which clocks in a zone show the given reading, written as though it were UTC, or a later one.
func firstShown(reading time.Time, zone *time.Location) time.Time {
	at := reading.Add(-maxOffset).In(zone)
	for {
		_, offset := at.Zone()
		shown := reading.Add(-time.Duration(offset) * time.Second)
		if shown.Before(at) {
			shown = at // the clocks jumped over the reading
		}
		_, until := at.ZoneBounds()
		switch {
		case until.IsZero():
			return shown.UTC() // the last stretch between two changes of the clocks
		case !until.After(at):
			// On the last day of a leap year beyond a zone's table, ZoneBounds takes the year to have ended the day before.
			until = at.Add(time.Hour)
		}
		if shown.Before(until) {
			return shown.UTC()
		}
		// Each round is a later stretch, of which there are only a few within the two days that shown can be ahead.
		at = until
	}
}
