package rule

import (
	"net/netip"
)

// KeyStatus says what AppendKey made of a request.
type KeyStatus uint8

const (
	// KeyReady: the key is whole, or the shared one.
	KeyReady KeyStatus = iota
	// KeySkip: a part is missing, and the rule leaves such requests alone.
	KeySkip
	// KeyDeny: a part is missing, and the rule refuses such requests.
	KeyDeny
)

// A key of several parts is its parts with a bar between them; bars and backslashes inside a part are escaped.
const (
	keySeparator = '|'
	keyEscape    = '\\'
)

// AppendKey appends the key that req spends under r, which must match it. A single part stands verbatim; several parts are
// joined so that no two lists of parts make the same key. A missing part makes KeySkip or KeyDeny, with dst as it was; under
// MissingShared it is empty, which no part that is present can be. It does not allocate when dst has room.
func (r *Rule) AppendKey(dst []byte, req *Request) ([]byte, KeyStatus) {
	if len(r.KeyBy) == 1 {
		return r.appendPart(dst, req, r.KeyBy[0])
	}
	start := len(dst)
	for i, part := range r.KeyBy {
		if i > 0 {
			dst = append(dst, keySeparator)
		}
		from := len(dst)
		var status KeyStatus
		dst, status = r.appendPart(dst, req, part)
		if status != KeyReady {
			return dst[:start], status
		}
		dst = escapePart(dst, from)
	}
	return dst, KeyReady
}

// Verbatim returns the key that req spends under r if it is a value of the request as it came, so that it need not be made.
// Where ok is false AppendKey says what the key is.
func (r *Rule) Verbatim(req *Request) (key string, ok bool) {
	if len(r.KeyBy) != 1 || r.Normalize != (Normalize{}) {
		return "", false
	}
	switch r.KeyBy[0].Kind {
	case KeyUser:
		return req.User, req.User != ""
	case KeyAPIKey:
		return req.APIKey, req.APIKey != ""
	default:
		return "", false
	}
}

// escapePart escapes dst[from:] in place.
func escapePart(dst []byte, from int) []byte {
	extra := 0
	for _, c := range dst[from:] {
		if c == keySeparator || c == keyEscape {
			extra++
		}
	}
	if extra == 0 {
		return dst
	}
	end := len(dst)
	for range extra {
		dst = append(dst, 0)
	}
	// From the back, so that no byte is overwritten before it is moved.
	for i, to := end-1, len(dst)-1; to > i; i, to = i-1, to-1 {
		dst[to] = dst[i]
		if dst[i] == keySeparator || dst[i] == keyEscape {
			to--
			dst[to] = keyEscape
		}
	}
	return dst
}

// appendPart appends one part, not escaped.
func (r *Rule) appendPart(dst []byte, req *Request, part KeyPart) ([]byte, KeyStatus) {
	start := len(dst)
	switch part.Kind {
	case KeyGlobal:
		return dst, KeyReady
	case KeyUser:
		dst = r.Normalize.append(dst, req.User)
	case KeyAPIKey:
		dst = r.Normalize.append(dst, req.APIKey)
	case KeyHeader:
		if values := req.Headers[part.Name]; len(values) > 0 {
			dst = r.Normalize.append(dst, values[0])
		}
	case KeyDescriptor:
		value, _ := req.Descriptor(part.Name)
		dst = r.Normalize.append(dst, value)
	case KeyIP:
		dst = appendIP(dst, req.IP, r.IPv6Prefix)
	case KeyEndpoint:
		dst = r.appendEndpoint(dst, req)
	}
	if len(dst) == start {
		return dst, r.missingStatus()
	}
	return dst, KeyReady
}

// missingStatus is what a missing part makes of the key.
func (r *Rule) missingStatus() KeyStatus {
	switch r.Missing {
	case MissingShared:
		return KeyReady
	case MissingDeny:
		return KeyDeny
	default:
		return KeySkip
	}
}

// appendIP appends an IPv4 address, or the IPv6 network that a caller is taken to own. An IPv4 address in IPv6 clothes is
// IPv4, else all of them would be one network.
func appendIP(dst []byte, ip netip.Addr, bits int) []byte {
	if !ip.IsValid() {
		return dst
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() || bits >= 128 {
		return ip.AppendTo(dst)
	}
	network, err := ip.Prefix(bits)
	if err != nil {
		// Only for bits out of range, which no parsed rule has.
		return ip.AppendTo(dst)
	}
	return network.AppendTo(dst)
}

// appendEndpoint appends the method and the first pattern of the scope that agrees.
func (r *Rule) appendEndpoint(dst []byte, req *Request) []byte {
	dst = append(r.Scope.methods.appendMethod(dst, req.Method), ' ')
	if len(r.Scope.patterns) == 0 {
		return append(dst, "/**"...)
	}
	clean, slash := cleanPath(req.Path)
	for i := range r.Scope.patterns {
		p := &r.Scope.patterns[i]
		if p.matches(clean, r.Scope.PathCase == CaseInsensitive) && r.Scope.slashAgrees(p, slash) {
			return append(dst, p.text...)
		}
	}
	// The request is not in scope; all such requests share what the first pattern would have.
	return append(dst, r.Scope.patterns[0].text...)
}

// slashAgrees says whether a slash at the end of a path keeps it from a pattern that matches it otherwise.
func (s *Scope) slashAgrees(p *pattern, slash bool) bool {
	return s.TrailingSlash == SlashIgnored || p.subtree || len(p.segments) == 0 || p.slash == slash
}
