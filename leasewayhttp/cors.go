package leasewayhttp

import "net/http"

// isPreflight tells a browser's question whether it may ask (Fetch, 4.8), given that the method is OPTIONS. It is free:
// the browser sends it on its own, and a refusal would look like a broken network.
func isPreflight(h http.Header) bool {
	return first(h, "Origin") != "" && first(h, "Access-Control-Request-Method") != ""
}

// expose lets a page of another origin read a refusal: without these fields a browser shows it as a broken network.
func (m *Middleware) expose(h, request http.Header) {
	const allowOrigin, exposed = "Access-Control-Allow-Origin", "Access-Control-Expose-Headers"
	origin := first(request, "Origin")
	if origin == "" {
		return
	}
	if first(h, allowOrigin) == "" && !m.allowOrigin(h, origin) {
		return
	}
	h.Add(exposed, "Retry-After, Leaseway-Reason, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset")
}

// allowOrigin allows an origin that the option names, and reports whether it does.
func (m *Middleware) allowOrigin(h http.Header, origin string) bool {
	for _, allowed := range m.config.origins {
		switch allowed {
		case "*":
			h.Set("Access-Control-Allow-Origin", "*")
			return true
		case origin:
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Credentials", "true")
			h.Add("Vary", "Origin")
			return true
		}
	}
	return false
}
