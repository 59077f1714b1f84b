package leasewayhttp

import (
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/leaseway/leaseway"
)

// maxInteger is the largest Integer of structured fields (RFC 9651, 3.3.1).
const maxInteger = 999_999_999_999_999

// policy is what a rule's fields say for every request under the same quota, rendered once.
type policy struct {
	key   policyKey
	limit string // X-RateLimit-Limit
	field string // RateLimit-Policy: "id";q=100;w=60
	left  string // the beginning of RateLimit: "id";r=
}

// policyKey is what a policy is made of.
type policyKey struct {
	rule   string
	limit  int64
	quota  int64
	window time.Duration
}

// inFlight says whether the quota is of requests in flight, which has no window.
func (k policyKey) inFlight() bool { return k.window == 0 && k.quota > 0 }

// policies remembers rendered policies, in pairs of slots. Overrides can be a million, so newer ones push older ones out: a
// policy that is gone costs one rendering to have back. A map would cost each request more than all its digits.
type policies struct {
	slots [maxPolicies]atomic.Pointer[policy]
}

// maxPolicies is a power of two.
const maxPolicies = 1024

// of returns the policy of a decision that a rule matched.
func (p *policies) of(d *leaseway.Decision) *policy {
	first := p.slot(d)
	newest := p.slots[first].Load()
	if newest != nil && newest.is(d) {
		return newest
	}
	if other := p.slots[first^1].Load(); other != nil && other.is(d) {
		return other
	}
	rendered := renderPolicy(policyKey{rule: d.Rule, limit: d.Limit, quota: d.Quota, window: d.Window})
	// Racing requests may lose each other's policy, and render it once more.
	p.slots[first^1].Store(newest)
	p.slots[first].Store(rendered)
	return rendered
}

// slot is where to look first. Where the rule's id is in memory stands for the id, which costs nothing to hash: decisions of
// one rule have the same text, and what another copy of it lands on is only rendered once more. Fields that differ by little
// must not land side by side, hence the multiplications by odd constants of high weight (the golden ratio's, and three of
// splitmix64 and its relatives).
func (p *policies) slot(d *leaseway.Decision) uint64 {
	h := uint64(uintptr(unsafe.Pointer(unsafe.StringData(d.Rule)))) * 0xd6e8feb86659fd93 //nolint:gosec // only a number
	h ^= uint64(d.Limit) * 0x9e3779b97f4a7c15
	h ^= uint64(d.Quota) * 0xbf58476d1ce4e5b9
	h ^= uint64(d.Window) * 0x94d049bb133111eb
	return h >> 32 % maxPolicies
}

// is says whether p is that of d. A key made of d would be copied to be compared, which takes longer than comparing.
func (p *policy) is(d *leaseway.Decision) bool {
	return p.key.limit == d.Limit && p.key.quota == d.Quota && p.key.window == d.Window && p.key.rule == d.Rule
}

func renderPolicy(key policyKey) *policy {
	name := appendString(nil, key.rule)
	quota, seconds := wholeSeconds(key.quota, key.window)
	field := append(append([]byte(nil), name...), ";q="...)
	field = strconv.AppendInt(field, quota, 10)
	if key.inFlight() {
		field = append(field, `;qu="concurrent-requests"`...)
	} else if seconds > 0 {
		field = strconv.AppendInt(append(field, ";w="...), seconds, 10)
	}
	return &policy{
		key:   key,
		limit: strconv.FormatInt(max(key.limit, 0), 10),
		field: string(field),
		left:  string(append(name, ";r="...)),
	}
}

// wholeSeconds says the same rate over whole seconds, which is all that RateLimit-Policy can say: 10 in 100 ms are 100 in 1 s.
// No window, or numbers too large to say, give 0 seconds: the parameter is then left out.
func wholeSeconds(quota int64, window time.Duration) (scaled, seconds int64) {
	quota = max(quota, 0)
	if window <= 0 {
		return min(quota, maxInteger), 0
	}
	divisor := gcd(int64(window), int64(time.Second))
	factor := int64(time.Second) / divisor
	if quota > maxInteger/factor {
		return min(quota, maxInteger), 0
	}
	return quota * factor, int64(window) / divisor
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// appendString appends a String of structured fields (RFC 9651, 4.1.6). It can only hold printable ASCII: other bytes are
// written as in a URL, and so is the percent sign, which keeps names apart.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~' || c == '%':
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
