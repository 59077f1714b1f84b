package rule

// KeyPart is one part of a key: an attribute of the request.
type KeyPart struct {
	Kind KeyKind
	// Name is the header's canonical name or the descriptor's name, empty for other kinds.
	Name string
}

// KeyKind is the kind of attribute that makes a part of a key.
type KeyKind uint8

const (
	// KeyGlobal is one budget for all; it stands alone.
	KeyGlobal KeyKind = iota
	// KeyUser is Request.User.
	KeyUser
	// KeyIP is Request.IP: an IPv4 address, or an IPv6 network.
	KeyIP
	// KeyAPIKey is Request.APIKey.
	KeyAPIKey
	// KeyEndpoint is the method and the path pattern of the scope that matched, never the raw path.
	KeyEndpoint
	// KeyHeader is the first value of a header.
	KeyHeader
	// KeyDescriptor is the value of a descriptor.
	KeyDescriptor
)

// String is the part as the document writes it.
func (p KeyPart) String() string {
	s := word(keyWords(), int(p.Kind))
	if p.Kind == KeyHeader || p.Kind == KeyDescriptor {
		return s + ":" + p.Name
	}
	return s
}

func keyWords() []string {
	return []string{"global", "user", "ip", "apikey", "endpoint", "header", "descriptor"}
}

// Normalize says which spellings of a user, apikey, header or descriptor are the same key. The steps that are set run in
// the order of the fields.
type Normalize struct {
	// Trim drops white space around the value.
	Trim bool
	// Casefold takes letters of either case as the same.
	Casefold bool
	// NFC takes composed and decomposed characters as the same.
	NFC bool
}
