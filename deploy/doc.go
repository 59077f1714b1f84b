// Package deploy holds what is copied to run Leaseway: configurations of proxies, packaging, alert rules. It has nothing but
// tests, which run the configurations as they are, but for their addresses:
//
//	client 127.0.0.2 ──▶ nginx, Caddy, HAProxy: processes ──▶ an API, in the test
//	                          └──▶ leaseway serve, a process: killed, and stopped
//
// The compose file runs as processes, too, and so do the image's build and its program; of leaseway proxy an API is killed.
//
// Whatever the proxy, clients are told 429 with Retry-After and the RateLimit fields, bodies and WebSockets arrive, nobody
// chooses its own address, and an outage of Leaseway is what the configuration says. Traefik is not run: what it sends is in the
// tests of internal/proxycheck, below, whose door all of them ask.
package deploy
