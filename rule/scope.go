package rule

// Scope says which requests a rule is about. Each list that is not empty must agree; the zero Scope is everything.
type Scope struct {
	// Paths are patterns: "/v1/search" is exact, "/v1/{name}" has one free segment, "/v1/**" is /v1 and all below it.
	Paths []string
	// Methods are HTTP methods in upper case; any letter case of a request agrees.
	Methods []string
	// Hosts are names without a port, in lower case, or "*.example.com" for the names below it.
	Hosts []string
	// Headers and Descriptors name exact values, one of which must be there.
	Headers, Descriptors []Attribute
	// Domain is the domain that a proxy must have sent the descriptor for; empty: any, or none.
	Domain string
	// Entries are a descriptor as a whole, in its order: one that is longer, or ordered otherwise, does not agree.
	Entries []EntryScope
	// PathCase says whether the letter case of a path matters.
	PathCase PathCase
	// TrailingSlash says whether a slash at the end of a path matters.
	TrailingSlash TrailingSlash

	patterns []pattern
	methods  methodSet
}

// Attribute is a header or a descriptor of a scope, with the values that agree.
type Attribute struct {
	Name   string
	Values []string
}

// PathCase says whether the letter case of a path matters.
type PathCase uint8

const (
	// CaseSensitive keeps /a and /A apart.
	CaseSensitive PathCase = iota
	// CaseInsensitive takes ASCII letters of either case as the same.
	CaseInsensitive
)

// String is the setting as the document writes it.
func (c PathCase) String() string { return word(pathCaseWords(), int(c)) }

// TrailingSlash says whether a slash at the end of a path matters.
type TrailingSlash uint8

const (
	// SlashIgnored takes /a and /a/ as the same.
	SlashIgnored TrailingSlash = iota
	// SlashStrict keeps /a and /a/ apart.
	SlashStrict
)

// String is the setting as the document writes it.
func (t TrailingSlash) String() string { return word(trailingSlashWords(), int(t)) }

func pathCaseWords() []string      { return []string{"sensitive", "insensitive"} }
func trailingSlashWords() []string { return []string{"ignore", "strict"} }
