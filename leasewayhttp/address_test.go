package leasewayhttp

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestClientIP(t *testing.T) {
	tenNet := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		name, peer string
		lines      []string
		trusted    []netip.Prefix
		want       string // "" is unknown
	}{
		{"the peer, without proxies", "203.0.113.5:4000", nil, nil, "203.0.113.5"},
		{"nobody is believed without trusted proxies", "10.0.0.2:4000", []string{"198.51.100.9"}, nil, "10.0.0.2"},
		{"an untrusted peer is not believed", "203.0.113.5:4000", []string{"198.51.100.9"}, tenNet, "203.0.113.5"},
		{"a trusted peer without the field", "10.0.0.2:4000", nil, tenNet, "10.0.0.2"},
		{"what the client wrote on the left is not believed", "10.0.0.2:4000", []string{"1.1.1.7, 203.0.113.5"}, tenNet, "203.0.113.5"},
		{"through trusted hops", "10.0.0.2:4000", []string{"198.51.100.9, 10.0.0.3"}, tenNet, "198.51.100.9"},
		{"never left of an unreadable hop", "10.0.0.2:4000", []string{"198.51.100.9, garbage, , 10.0.0.3"}, tenNet, "10.0.0.2"},
		{"an empty hop is unreadable", "10.0.0.2:4000", []string{"198.51.100.9,, 10.0.0.3"}, tenNet, "10.0.0.2"},
		{"unreadable hops left of the caller do not matter", "10.0.0.2:4000", []string{"garbage, , 198.51.100.9"}, tenNet, "198.51.100.9"},
		{"an empty field", "10.0.0.2:4000", []string{""}, tenNet, "10.0.0.2"},
		{"lines are joined in order", "10.0.0.2:4000", []string{"1.1.1.1, 198.51.100.9", "10.0.0.3"}, tenNet, "198.51.100.9"},
		{"the last line is the nearest", "10.0.0.2:4000", []string{"1.1.1.1", "198.51.100.9"}, tenNet, "198.51.100.9"},
		{"all hops trusted: the leftmost", "10.0.0.2:4000", []string{"10.0.0.9, 10.0.0.8", "10.0.0.3"}, tenNet, "10.0.0.9"},
		{"too many hops", "10.0.0.2:4000", []string{"198.51.100.9" + strings.Repeat(", 10.0.0.3", 65)}, tenNet, "10.0.0.2"},
		{"just not too many hops", "10.0.0.2:4000", []string{"198.51.100.9" + strings.Repeat(", 10.0.0.3", 64)}, tenNet, "198.51.100.9"},

		{"a hop with a port", "10.0.0.2:4000", []string{"198.51.100.9:5000"}, tenNet, "198.51.100.9"},
		{"an IPv6 hop", "10.0.0.2:4000", []string{"2001:db8::1"}, tenNet, "2001:db8::1"},
		{"a bracketed hop", "10.0.0.2:4000", []string{"[2001:db8::1]"}, tenNet, "2001:db8::1"},
		{"a bracketed hop with a port", "10.0.0.2:4000", []string{"[2001:db8::1]:5000"}, tenNet, "2001:db8::1"},
		{"spelling does not matter", "10.0.0.2:4000", []string{"2001:DB8:0:1:0:0:0:1"}, tenNet, "2001:db8:0:1::1"},
		{"tabs and spaces around a hop", "10.0.0.2:4000", []string{"1.1.1.1,\t 198.51.100.9 \t, 10.0.0.3"}, tenNet, "198.51.100.9"},
		{"a port that is none", "10.0.0.2:4000", []string{"198.51.100.9:http"}, tenNet, "10.0.0.2"},
		{"a port out of range", "10.0.0.2:4000", []string{"198.51.100.9:65536"}, tenNet, "10.0.0.2"},
		{"brackets around IPv4", "10.0.0.2:4000", []string{"[198.51.100.9]"}, tenNet, "10.0.0.2"},
		{"half a bracket", "10.0.0.2:4000", []string{"[2001:db8::1"}, tenNet, "10.0.0.2"},
		{"leading zeros, read as octal by some", "10.0.0.2:4000", []string{"0198.051.100.9"}, tenNet, "10.0.0.2"},
		{"a name", "10.0.0.2:4000", []string{"unknown"}, tenNet, "10.0.0.2"},
		{"a hop of 64 KiB", "10.0.0.2:4000", []string{"fe80::1%" + strings.Repeat("k", 64<<10)}, tenNet, "10.0.0.2"},

		{"a mapped hop is IPv4", "10.0.0.2:4000", []string{"::ffff:192.0.2.1"}, tenNet, "192.0.2.1"},
		{"a mapped trusted hop", "10.0.0.2:4000", []string{"198.51.100.9, ::ffff:10.0.0.3"}, tenNet, "198.51.100.9"},
		{"a mapped peer", "[::ffff:192.0.2.1]:4000", nil, nil, "192.0.2.1"},
		{"a mapped trusted peer", "[::ffff:10.0.0.2]:4000", []string{"198.51.100.9"}, tenNet, "198.51.100.9"},
		{
			"a trusted network in mapped form", "10.0.0.2:4000", []string{"198.51.100.9"},
			[]netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}, "198.51.100.9",
		},
		{
			"a mapped network trusts no more than it says", "11.0.0.2:4000", []string{"198.51.100.9"},
			[]netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}, "11.0.0.2",
		},
		{"the zone is dropped", "[fe80::1%eth0]:4000", nil, nil, "fe80::1"},
		{"the zone of a hop is dropped", "10.0.0.2:4000", []string{"fe80::1%eth0"}, tenNet, "fe80::1"},
		{"a trusted IPv6 peer", "[fd00::2]:4000", []string{"198.51.100.9, fd00::3%eth0"}, tenNet, "198.51.100.9"},

		{"a Unix socket", "@", []string{"198.51.100.9"}, tenNet, ""},
		{"a Unix socket without a name", "", []string{"198.51.100.9"}, tenNet, ""},
		{"a peer without a port", "203.0.113.5", nil, nil, "203.0.113.5"},
		{"a trusted network that is none", "10.0.0.2:4000", []string{"198.51.100.9"}, []netip.Prefix{{}}, "10.0.0.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.lines}}
			got := ClientIP(r, c.trusted)
			if c.want == "" {
				if got.IsValid() {
					t.Fatalf("the caller is %v, want unknown", got)
				}
				return
			}
			if got != netip.MustParseAddr(c.want) {
				t.Fatalf("the caller is %v, want %s", got, c.want)
			}
		})
	}
}

// A caller who can write anything into the field, behind a proxy that appends the caller's address, is always seen there.
func FuzzClientCannotMoveItsAddress(f *testing.F) {
	for _, s := range []string{"", "1.1.1.1", "garbage, ,", "10.0.0.1", "[::1]:80,", "\x00", "fe80::1%eth0", ", , ,"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	caller := netip.MustParseAddr("203.0.113.5")
	f.Fuzz(func(t *testing.T, forged string, ownLine bool) {
		lines := []string{forged + ", 203.0.113.5, 10.0.0.3"}
		if ownLine {
			lines = []string{forged, "203.0.113.5", "10.0.0.3"}
		}
		r := &http.Request{RemoteAddr: "10.0.0.2:4000", Header: http.Header{"X-Forwarded-For": lines}}
		if got := ClientIP(r, trusted); got != caller {
			t.Fatalf("%q makes the caller %v", lines, got)
		}
		r.RemoteAddr = "203.0.113.5:4000"
		if got := ClientIP(r, trusted); got != caller {
			t.Fatalf("%q of an untrusted peer makes the caller %v", lines, got)
		}
	})
}

// The walk without allocations says what a plain one says.
func FuzzClientIPAgainstATwin(f *testing.F) {
	f.Add("10.0.0.2:1", "198.51.100.9, 10.0.0.3", "10.0.0.4")
	f.Add("[::ffff:10.0.0.2]:1", "[2001:db8::1]:80, ::ffff:10.0.0.3", "")
	f.Add("10.0.0.2:1", "a, , 10.0.0.3", "10.0.0.3,")
	f.Add("@", "fe80::1%eth0", "[10.0.0.1]")
	for _, peer := range []string{
		"255.255.255.255:65535", "256.0.0.1:1", "192.0.2.1:65536", "01.2.3.4:1", "0.0.0.0:0", "192.0.2.1:080",
		"192.0.2.1:", "192.0.2:1", "192.0.2.1.1:1", "192..2.1:1", ":1", "192.0.2.1:1:1", "192.0.2.1:99999999999999999999",
	} {
		f.Add(peer, "", "")
	}
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fe80::/10")}
	f.Fuzz(func(t *testing.T, peer, one, two string) {
		r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": {one, two}}}
		got, want := ClientIP(r, trusted), twinClientIP(r, trusted)
		if got != want {
			t.Fatalf("peer %q, lines %q and %q: %v, the twin says %v", peer, one, two, got, want)
		}
		if got.Zone() != "" || got.Is4In6() {
			t.Fatalf("%v has two spellings", got)
		}
	})
}

// twinClientIP joins, splits, turns around and tries every way to read a hop.
func twinClientIP(r *http.Request, trusted []netip.Prefix) netip.Addr {
	read := func(s string) netip.Addr {
		for _, try := range []string{s, s + ":1", "[" + s + "]:1"} {
			if ap, err := netip.ParseAddrPort(try); err == nil {
				return ap.Addr().Unmap().WithZone("")
			}
		}
		return netip.Addr{}
	}
	isTrusted := func(ip netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	peer := read(r.RemoteAddr)
	if !isTrusted(peer) {
		return peer
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	slices.Reverse(hops)
	for i, hop := range hops {
		ip := read(strings.Trim(hop, " \t"))
		switch {
		case !ip.IsValid(), i == maxHops && isTrusted(ip):
			return peer
		case !isTrusted(ip):
			return ip
		case i == len(hops)-1:
			return ip
		}
	}
	return peer
}

func TestReadingAddressesDoesNotAllocate(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	r := &http.Request{
		RemoteAddr: "10.0.0.2:4000",
		Header:     http.Header{"X-Forwarded-For": {"2001:db8::1, 198.51.100.9:80", "[::ffff:10.0.0.3]:80, 10.0.0.4"}},
	}
	if n := testing.AllocsPerRun(100, func() { ClientIP(r, trusted) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
