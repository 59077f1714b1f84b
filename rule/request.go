package rule

import "net/netip"

// Request is what a door knows about one request: the attributes that scopes look at and that keys are made of.
// An empty value means that the door does not know it, and counts as missing.
type Request struct {
	// User is who the caller is, as the identity of the rule document found it.
	User string
	// APIKey is the credential the caller presented.
	APIKey string
	// IP is the caller's address; the zero Addr is an unknown one.
	IP netip.Addr
	// Method is the HTTP method, Host the host with or without a port, Path the escaped path as received; a query is ignored.
	Method, Host, Path string
	// Headers has canonical names, as http.Header.
	Headers map[string][]string
	// Descriptors are what doors without HTTP know: names and values of their own.
	Descriptors map[string]string
	// Domain is what a proxy's descriptor belongs to, and Entries are that descriptor in its order; a name that is in both
	// Entries and Descriptors has the value of its first entry.
	Domain  string
	Entries []Entry
	// Class is how much the request matters, by who knows it; unset, the document's classes or the method tell. A request of
	// ClassTest spends budgets of its own.
	Class Class
	// LowerTo is what the caller itself says of its class. It makes the request matter less, never more, and changes nothing
	// about whose budget is spent.
	LowerTo Class
	// Cost is in tokens: 0 means the rule's own cost; a negative one is for the door to refuse.
	Cost int64
	// Limit is one that the request brings along. If it is Valid it decides instead of the rules: the budget is that of Domain
	// and Entries under this limit.
	Limit *RequestLimit
	// Peek only looks: it charges nothing.
	Peek bool
	// Finishes says that Limiter.Done is called when the request is over, whatever the rules are: the fleet shedder counts, and
	// sheds, only such requests. Package leasewayhttp sees to it.
	Finishes bool
}
