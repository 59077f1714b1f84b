package rule

import (
	"strings"
	"time"
)

// The windows of a calendar, as the document writes them. No other spelling means a calendar's: 24h is always 24 hours.
const (
	dayWindow   = "1d"
	monthWindow = "1mo"
)

// maxZone bounds the name of a time zone.
const maxZone = 64

// ruleWindow reads the window of a rule, which may be a day or a month of a calendar.
func (o *object) ruleWindow(r *Rule) {
	zone := o.timeZone()
	written := o.entries[windowKey]
	isMonth := written.node != nil && written.node.Value == monthWindow
	switch _, again := o.get("windowSec"); {
	case isMonth && r.Algorithm == FixedWindow && !again:
		r.Window, r.Calendar, r.TimeZone = nominalMonth, CalendarMonth, zone
		if zone == nil {
			r.TimeZone = time.UTC
		}
		return
	case isMonth && again:
		o.window() // says that two windows are one too many
		return
	case isMonth:
		written.fail(monthWindow+" is a month of the calendar, which only a fixed_window has",
			"write algorithm: fixed_window, or days, such as 30d")
		o.withoutCalendar(r)
		return
	}
	r.Window = o.window()
	if zone == nil {
		return
	}
	if r.Algorithm != FixedWindow || written.node == nil || written.node.Value != dayWindow {
		o.withoutCalendar(r)
		return
	}
	r.Calendar, r.TimeZone = CalendarDay, zone
}

// withoutCalendar reports a time zone that would mean nothing.
func (o *object) withoutCalendar(r *Rule) {
	v, ok := o.entries["timeZone"]
	switch {
	case !ok:
	case r.Algorithm != FixedWindow:
		v.fail("is for fixed windows only: a "+r.Algorithm.String()+" has no calendar", "leave it out, or write algorithm: fixed_window")
	default:
		v.fail("is for windows of a calendar only", "write window: "+dayWindow+" or window: "+monthWindow+", or leave it out")
	}
}

// timeZone reads the name of a time zone; nil when there is none, or an error.
func (o *object) timeZone() *time.Location {
	v, ok := o.get("timeZone")
	if !ok {
		return nil
	}
	name, ok := v.text(maxZone)
	if !ok {
		return nil
	}
	if zone := v.d.zones[name]; zone != nil {
		return zone
	}
	zone, err := loadZone(name)
	if err != nil {
		v.fail(quote(name)+" is no time zone", "write a name of the IANA database, such as Europe/Berlin or UTC")
		return nil
	}
	if v.d.zones == nil {
		v.d.zones = make(map[string]*time.Location)
	}
	v.d.zones[name] = zone
	return zone
}

// unknownZoneError is the error for a name that is no zone wherever the document may be read.
type unknownZoneError string

func (e unknownZoneError) Error() string { return "unknown time zone " + string(e) }

// loadZone finds a zone by the name that it has everywhere. The names in lower case and "Local" are files and settings of one machine.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" || name[0] < 'A' || name[0] > 'Z' || strings.Trim(name, idBytes+"/+") != "" {
		return nil, unknownZoneError(name)
	}
	return time.LoadLocation(name)
}
