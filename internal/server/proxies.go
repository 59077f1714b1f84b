package server

import (
	"net/netip"
	"strings"

	"github.com/leaseway/leaseway/internal/proxycheck"
)

// maxProxies is how many networks --trusted-proxies may name; each is looked at for each hop of a request.
const maxProxies = 1000

// trustedProxies are the networks that --trusted-proxies names. A single address is a network of its own. The error is a *UsageError.
func (c *Config) trustedProxies() ([]netip.Prefix, error) {
	if len(c.TrustedProxies) > maxProxies {
		return nil, usage("--trusted-proxies names %d networks, and may name %d: write larger ones", len(c.TrustedProxies), maxProxies)
	}

	networks := make([]netip.Prefix, 0, len(c.TrustedProxies))

	for _, text := range c.TrustedProxies {
		text = strings.TrimSpace(text)

		network, err := netip.ParsePrefix(text)
		if ip, one := netip.ParseAddr(text); one == nil {
			network, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}

		switch {
		case err != nil:
			return nil, usage("--trusted-proxies %q is no network: write one such as 10.0.0.0/8, or an address", text)
		case network.Bits() == 0:
			return nil, usage("--trusted-proxies %s is everyone, who could then claim any address: name the networks of your proxies", text)
		case network.Addr().Is4In6():
			return nil, usage("--trusted-proxies %s is IPv4 in the form of IPv6: write it as IPv4, such as 10.0.0.0/8", text)
		}

		networks = append(networks, network.Masked())
	}

	return networks, nil
}

// proxyCounts are the panics that the door of the proxies survived.
func proxyCounts(door *proxycheck.Door) source {
	return func(s *scrape) {
		s.counter("recovered_panics_total", panicsHelp, door.Stats().Panics, label{"in", "proxies"})
	}
}
