package main

import (
	"fmt"
	"net/http"
)

// checkRequest is what a proxy asks in a profile of /v1/check, about one request of a client.
const checkRequest = "GET /v1/check?profile=%s HTTP/1.1\r\nHost: limits.internal\r\nUser-Agent: bench\r\nAccept: */*\r\n" +
	"X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: api.example\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /v1/search?q=x\r\n" +
	"X-Original-Method: GET\r\nX-Original-Uri: /v1/search?q=x\r\n\r\n"

// checks measures the endpoint that proxies ask.
func checks() contest {
	about := func(profile string) question {
		return question{text: fmt.Sprintf(checkRequest, profile), status: http.StatusNoContent}
	}

	serve := func(dir string) (server, error) {
		return built(dir, "rules: [{id: r, keyBy: ip, limit: 1000000000, window: 1s}]", "serve", "--trusted-proxies", "127.0.0.0/8")
	}

	return contest{
		name: "check", title: "The check that proxies ask for",
		about: fmt.Sprintf("`GET /v1/check`, as nginx, Caddy, Traefik and HAProxy ask it before they forward a request: %d connections, "+
			"each with one question at a time, of `leaseway serve` with one rule by address, whose five fields are in each answer. The "+
			"bare server is one of net/http that answers 204 to the same questions. Each is a process of its own; the callers share the "+
			"machine's processors.", loadCallers),
		columns: loadColumns("server"), rounds: 5,
		entrants: []entrant{
			loaded("leaseway serve, Caddy's profile", ours, about("caddy"), serve),
			loaded("leaseway serve, nginx's profile", ours, about("nginx"), serve),
			loaded("net/http that answers 204", peer, about("caddy"), func(string) (server, error) { return beside(roleYes) }),
		},
	}
}
