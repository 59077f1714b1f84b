package rule

// Headers says which response headers tell callers about their budget.
type Headers string

const (
	// HeadersBoth writes those of HeadersIETF and those of HeadersLegacy; the default.
	HeadersBoth Headers = "both"
	// HeadersIETF writes RateLimit-Policy and RateLimit.
	HeadersIETF Headers = "ietf"
	// HeadersLegacy writes X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
	HeadersLegacy Headers = "legacy"
	// HeadersNone writes none of them; Retry-After stays.
	HeadersNone Headers = "none"
)

func headersWords() []string {
	return []string{string(HeadersBoth), string(HeadersIETF), string(HeadersLegacy), string(HeadersNone)}
}
