package rule

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// calendarRule is a rule whose windows are those of a zone's calendar.
func calendarRule(tb testing.TB, window, zone string) *Rule {
	tb.Helper()
	return one(tb, "algorithm: fixed_window\nlimit: 100\nwindow: "+window+"\ntimeZone: "+zone)
}

func TestSpanOfCalendars(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, window, zone, now, start, end, next string }{
		{"a day in UTC+8", "1d", "Asia/Shanghai", "2026-09-08T15:00:00Z", "2026-09-07T16:00:00Z", "2026-09-08T16:00:00Z", "2026-09-09T16:00:00Z"},
		{"25 hours", "1d", "Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", "2026-10-26T23:00:00Z"},
		{"23 hours", "1d", "Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z"},
		{"before a missing midnight", "1d", "Africa/Cairo", "2026-04-23T21:59:59Z", "2026-04-22T22:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"},
		{"at a missing midnight", "1d", "Africa/Cairo", "2026-04-23T22:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z", "2026-04-25T21:00:00Z"},
		{"first of two midnights", "1d", "America/Havana", "2026-11-01T04:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", "2026-11-03T05:00:00Z"},
		{"second of two midnights", "1d", "America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", "2026-11-03T05:00:00Z"},
		{"turned back at midnight", "1d", "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z", "2018-02-19T03:00:00Z"},
		{"yesterday shown again after midnight", "1d", "America/St_Johns", "2006-10-29T03:00:00Z", "2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z", "2006-10-31T03:30:00Z"},
		{"a date left out", "1d", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		{"before a date left out", "1d", "Pacific/Apia", "2011-12-28T10:00:00Z", "2011-12-28T10:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"leap day", "1d", "UTC", "2028-02-29T12:00:00Z", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z", "2028-03-02T00:00:00Z"},
		{"last day of a far leap year", "1d", "Europe/Berlin", "2040-12-31T12:00:00Z", "2040-12-30T23:00:00Z", "2040-12-31T23:00:00Z", "2041-01-01T23:00:00Z"},
		{"29 days", "1mo", "UTC", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", "2028-04-01T00:00:00Z"},
		{"28 days", "1mo", "UTC", "2027-01-31T23:59:59Z", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"},
		{"no leap year", "1mo", "UTC", "2100-02-28T00:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z", "2100-04-01T00:00:00Z"},
		{"end of a year", "1mo", "Asia/Kolkata", "2026-12-31T18:29:59Z", "2026-11-30T18:30:00Z", "2026-12-31T18:30:00Z", "2027-01-31T18:30:00Z"},
		{"month with a change of clocks", "1mo", "Europe/Berlin", "2026-03-31T21:59:59Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z", "2026-04-30T22:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		start, end, next := calendarRule(t, c.window, c.zone).Span(at)
		got := fmt.Sprintln(start.Format(time.RFC3339), end.Format(time.RFC3339), next.Format(time.RFC3339))
		if want := fmt.Sprintln(c.start, c.end, c.next); got != want {
			t.Errorf("%s, at %s:\ngot  %swant %s", c.name, c.now, got, want)
		}
	}
}

func TestSpanWithoutACalendar(t *testing.T) {
	t.Parallel()
	r := one(t, "algorithm: fixed_window\nlimit: 5\nwindow: 1m")
	for _, c := range []struct{ now, start int64 }{{0, 0}, {59_999_999, 0}, {60_000_000, 60_000_000}, {-1, -60_000_000}, {-60_000_000, -60_000_000}} {
		start, end, next := r.Span(time.UnixMicro(c.now))
		if start.UnixMicro() != c.start || end.Sub(start) != time.Minute || next.Sub(end) != time.Minute {
			t.Errorf("at %d µs: %v, %v, %v; want a start at %d µs and two minutes", c.now, start, end, next, c.start)
		}
	}
	now := time.Unix(7, 0)
	if start, end, next := one(t, "block: true").Span(now); !start.Equal(now) || !end.Equal(now) || !next.Equal(now) {
		t.Errorf("a rule without a window has %v, %v, %v", start, end, next)
	}
}

// oddZones are zones of whole and broken offsets, with and without summer time, with changes at midnight, with skipped
// and repeated dates, on both sides of the date line.
func oddZones() []string {
	return []string{
		"UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Lisbon", "Europe/Istanbul", "Europe/Moscow", "America/New_York", "America/Havana",
		"America/Sao_Paulo", "America/Santiago", "America/Asuncion", "America/St_Johns", "America/Scoresbysund", "America/Nuuk", "America/Juneau",
		"America/Metlakatla", "America/Caracas", "America/Guyana", "America/Bogota", "Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "Africa/Juba",
		"Asia/Tehran", "Asia/Gaza", "Asia/Beirut", "Asia/Amman", "Asia/Damascus", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Shanghai", "Asia/Pyongyang",
		"Asia/Manila", "Asia/Riyadh", "Australia/Lord_Howe", "Australia/Eucla", "Atlantic/Azores", "Antarctica/Troll", "Antarctica/Casey",
		"Pacific/Apia", "Pacific/Fakaofo", "Pacific/Kwajalein", "Pacific/Kiritimati", "Pacific/Chatham", "Pacific/Tongatapu", "Etc/GMT+12", "Etc/GMT-14",
	}
}

// Whenever it is asked, in whatever zone: windows follow each other without a gap, all of a window's instants name the same
// window, and it begins when its date is first shown.
func TestSpansNeitherOverlapNorLeaveGaps(t *testing.T) {
	t.Parallel()
	rules := map[string][]*Rule{}
	for _, window := range []string{dayWindow, monthWindow} {
		for _, zone := range oddZones() {
			rules[window] = append(rules[window], calendarRule(t, window, zone))
		}
	}
	from, to := time.Date(1850, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.SampledFrom(rules[rapid.SampledFrom([]string{dayWindow, monthWindow}).Draw(t, "window")]).Draw(t, "rule")
		now := time.UnixMicro(rapid.Int64Range(from.UnixMicro(), to.UnixMicro()).Draw(t, "now"))
		if rapid.Bool().Draw(t, "near a change of clocks") {
			if _, change := now.In(r.TimeZone).ZoneBounds(); !change.IsZero() {
				now = change.Add(time.Duration(rapid.Int64Range(-int64(30*time.Hour), int64(30*time.Hour)).Draw(t, "apart")))
			}
		}
		checkSpan(t, r, now)
	})
}

// checkSpan holds the span at one instant against the clock faces around it.
func checkSpan(t *rapid.T, r *Rule, now time.Time) {
	start, end, next := r.Span(now)
	if start.After(now) || !now.Before(end) || !end.Before(next) {
		t.Fatalf("%v at %v: %v, %v, %v are out of order", r.TimeZone, now, start, end, next)
	}
	for _, at := range []time.Time{start, end.Add(-time.Microsecond), start.Add(end.Sub(start) / 2)} {
		if s, e, n := r.Span(at); !s.Equal(start) || !e.Equal(end) || !n.Equal(next) {
			t.Fatalf("%v: %v is in %v, %v, %v, and %v in %v, %v, %v", r.TimeZone, now, start, end, next, at, s, e, n)
		}
	}
	if s, e, _ := r.Span(end); !s.Equal(end) || !e.Equal(next) {
		t.Fatalf("%v: after the window to %v comes that from %v to %v, not to %v", r.TimeZone, end, s, e, next)
	}
	// The dumb way: no earlier instant shows the date, or a later one.
	began := shownDate(r, start)
	for back := time.Second; back < 50*time.Hour; back += 15 * time.Minute {
		if shown := shownDate(r, start.Add(-back)); shown >= began {
			t.Fatalf("%v: the window of %d starts at %v, but %v before it clocks show %d", r.TimeZone, began, start, back, shown)
		}
	}
}

// shownDate is the date that clocks show under r's calendar, as a number: 20260131, or 202601.
func shownDate(r *Rule, at time.Time) int {
	y, m, d := at.In(r.TimeZone).Date()
	if r.Calendar == CalendarMonth {
		return y*100 + int(m)
	}
	return y*10_000 + int(m)*100 + d
}

func BenchmarkSpan(b *testing.B) {
	r, now := calendarRule(b, dayWindow, "Europe/Berlin"), time.Unix(1_800_000_000, 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, end, _ := r.Span(now); !end.After(now) {
			b.Fatal("the window is over")
		}
	}
}
