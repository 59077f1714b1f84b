package leasewayhttp

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxHops is how many entries of X-Forwarded-For are read; no real chain of proxies is as long.
const maxHops = 64

// forwardedFor is the field to which each proxy appends the address it was called from.
const forwardedFor = "X-Forwarded-For"

// ClientIP returns the address of the caller: the peer, or, when the peer is in trusted, what X-Forwarded-For says, read
// from the right through trusted hops, several lines being one list. The first hop that is not trusted is the caller; when
// all are, the leftmost. A hop that cannot be read, or a list of more than 64 trusted hops, makes it the peer: text further
// left is anyone's.
//
// The address has no zone, and IPv4 in IPv6 form is IPv4. It is the zero Addr when the peer has no IP address, as behind
// a Unix socket.
func ClientIP(r *http.Request, trusted []netip.Prefix) netip.Addr {
	ip, _ := clientIP(r, trusted)
	return ip
}

// clientIP also says whether the peer is a trusted proxy.
func clientIP(r *http.Request, trusted []netip.Prefix) (ip netip.Addr, viaProxy bool) {
	peer, ok := parseIPv4Port(r.RemoteAddr)
	if !ok {
		peer, _ = parseHop(r.RemoteAddr)
	}
	if !isTrusted(trusted, peer) {
		return peer, false
	}
	lines := r.Header[forwardedFor]
	if len(lines) == 0 {
		return peer, true
	}
	caller, ok := furthestHop(lines, trusted)
	if !ok {
		return peer, true
	}
	return caller, true
}

// furthestHop walks lines from the right through trusted hops. It reports false when it meets a hop it cannot read.
func furthestHop(lines []string, trusted []netip.Prefix) (hop netip.Addr, ok bool) {
	hops := 0
	for _, line := range slices.Backward(lines) {
		for rest, more := line, true; more; {
			var entry string
			rest, entry, more = cutLast(rest)
			hop, ok = parseHop(strings.Trim(entry, " \t"))
			if !ok || !isTrusted(trusted, hop) {
				return hop, ok
			}
			hops++
			if hops > maxHops {
				return netip.Addr{}, false
			}
		}
	}
	return hop, true
}

// cutLast cuts the last entry off a list; more says that others are left of it.
func cutLast(list string) (rest, entry string, more bool) {
	comma := strings.LastIndexByte(list, ',')
	if comma < 0 {
		return "", list, false
	}
	return list[:comma], list[comma+1:], true
}

// parseHop reads an address with or without a port, and IPv6 with or without brackets.
func parseHop(s string) (netip.Addr, bool) {
	// Room for a bracketed IPv6 with an embedded IPv4, a zone and a port; netip's errors would quote more.
	const longest = 128
	if s == "" || len(s) > longest {
		return netip.Addr{}, false
	}
	// Looking first spares the errors of netip, which are allocated.
	switch {
	case s[0] == '[' && s[len(s)-1] == ']':
		ip, err := netip.ParseAddr(s[1 : len(s)-1])
		return plain(ip), err == nil && ip.Is6()
	case s[0] == '[' || strings.Count(s, ":") == 1:
		ap, err := netip.ParseAddrPort(s)
		return plain(ap.Addr()), err == nil
	default:
		ip, err := netip.ParseAddr(s)
		return plain(ip), err == nil
	}
}

// parseIPv4Port reads what net/http says of most peers, 192.0.2.1:1234, in a fraction of the time that netip takes. What is
// written in any other way it leaves to parseHop.
func parseIPv4Port(s string) (ip netip.Addr, ok bool) {
	const most = len("255.255.255.255:65535")
	if len(s) > most {
		return netip.Addr{}, false
	}
	var octets [4]byte
	number, digits, ended := 0, 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
			if digits > 0 && number == 0 {
				return netip.Addr{}, false // a leading zero
			}
			number, digits = number*10+int(c-'0'), digits+1
		case digits > 0 && number <= 255 && ended < 4 && c == "...:"[ended]:
			octets[ended] = byte(number)
			number, digits, ended = 0, 0, ended+1
		default:
			return netip.Addr{}, false
		}
	}
	return netip.AddrFrom4(octets), ended == 4 && digits > 0 && number <= 65535
}

// plain gives an address its one spelling.
func plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// isTrusted looks for an address, as plain returns it, in networks as people write them.
func isTrusted(networks []netip.Prefix, ip netip.Addr) bool {
	for _, network := range networks {
		if network.Contains(ip) {
			return true
		}
		// ::ffff:10.0.0.0/104 is 10.0.0.0/8, which netip keeps apart.
		if bits := network.Bits() - 96; bits >= 0 && network.Addr().Is4In6() &&
			netip.PrefixFrom(network.Addr().Unmap(), bits).Contains(ip) {
			return true
		}
	}
	return false
}
