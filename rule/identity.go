package rule

// Identity says where doors find a request's user and API key.
type Identity struct {
	// APIKey lists the places in the order in which they are looked at; the first that has a value wins.
	APIKey []Credential
	// User is where the user is named; the zero value is nowhere.
	User UserSource
}

// Credential is a place that may hold an API key: a header, or the bearer token of Authorization.
type Credential struct {
	// Header is the canonical name; empty for a bearer token.
	Header string
	// Bearer is the token of "Authorization: Bearer".
	Bearer bool
}

// UserSource is the header that names the user.
type UserSource struct {
	// Header is the canonical name; empty means that no header names the user.
	Header string
	// Trusted says that every peer may set it; otherwise only trusted proxies are believed.
	Trusted bool
}

// defaultIdentity is what a document without an identity has.
func defaultIdentity() Identity {
	return Identity{APIKey: []Credential{{Header: "X-Api-Key"}, {Bearer: true}}}
}
