package main

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// pageBytes is what the API answers that the proxies stand in front of.
const pageBytes = 1 << 10

// proxies measures what a proxy costs that limits.
func proxies() contest {
	return contest{
		name: "proxy", title: "A proxy in front of an API",
		about: fmt.Sprintf("%d connections, each with one request at a time, for an answer of 1 KiB from a server of Go that does nothing "+
			"else. Each proxy is a process of its own, and so is the server; they and the callers share this machine's processors, so "+
			"rates compare and mean nothing alone. nginx has two workers, and `limit_req` by address where it limits; Leaseway has one "+
			"rule by address, and sets its five fields.", loadCallers),
		columns: loadColumns("proxy"), rounds: 5,
		entrants: proxyEntrants(), needs: "there is no nginx on the PATH or in /usr/sbin",
	}
}

// proxyEntrants is empty where there is no nginx.
func proxyEntrants() []entrant {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		if nginx, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return nil
		}
	}

	const oneRule = "rules: [{id: r, keyBy: ip, limit: 1000000000, window: 1s}]"

	return []entrant{
		proxied("Leaseway's proxy, one rule", ours, leasewayProxy(oneRule, "")),
		proxied("Leaseway's proxy, one rule, access log", ours, leasewayProxy(oneRule, "access.log")),
		proxied("Leaseway's proxy, no rule", ours, leasewayProxy("rules: []", "")),
		proxied("httputil.ReverseProxy", peer, func(_, upstream string) (server, error) { return beside(rolePlainProxy, upstream) }),
		proxied("nginx, `limit_req`", peer, nginxProxy(nginx, true)),
		proxied("nginx, no limit", peer, nginxProxy(nginx, false)),
		proxied("no proxy", floor, func(_, upstream string) (server, error) { return server{address: upstream}, nil }),
	}
}

// opens starts a proxy before the upstream at an address, with files in dir.
type opens func(dir, upstream string) (server, error)

func proxied(name string, side side, open opens) entrant {
	ask := question{
		text:   "GET /v1/search?q=x HTTP/1.1\r\nHost: api.example\r\nUser-Agent: bench\r\n\r\n",
		status: http.StatusOK, bytes: pageBytes,
	}

	return loaded(name, side, ask, func(dir string) (server, error) {
		upstream, err := beside(roleAPI)
		if err != nil {
			return server{}, err
		}

		front, err := open(dir, upstream.address)
		if err != nil {
			upstream.stop()

			return server{}, err
		}

		return front.with(upstream), nil
	})
}

// leasewayProxy starts the real program; log names its access log, "" for none.
func leasewayProxy(rules, log string) opens {
	return func(dir, upstream string) (server, error) {
		args := []string{"proxy", "--upstream", "http://" + upstream}
		if log != "" {
			args = append(args, "--access-log", filepath.Join(dir, log))
		}

		return built(dir, rules, args...)
	}
}

// plainProxy is a ReverseProxy that is set up with care: without a pool it would allocate a buffer for each answer.
func plainProxy(upstream string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: upstream})
			r.SetXForwarded()
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		BufferPool: &buffers{pool: sync.Pool{New: func() any {
			b := make([]byte, 32<<10)

			return &b
		}}},
	}
}

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte  { return *b.pool.Get().(*[]byte) } //nolint:forcetypeassert // the pool holds nothing else
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

const nginxConf = `
daemon off; worker_processes 2; pid %[1]s/pid; error_log %[1]s/error.log crit;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  limit_req_zone $binary_remote_addr zone=z:1m rate=1000000r/s;
  upstream api { server %[2]s; keepalive 256; }
  server {
    listen %[3]s; keepalive_requests 100000000;
    location / {
      %[4]s
      proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
    }
  }
}
`

func nginxProxy(path string, limits bool) opens {
	return func(dir, upstream string) (server, error) {
		address, err := freeAddress()
		if err != nil {
			return server{}, err
		}

		limit := ""
		if limits {
			limit = "limit_req zone=z burst=100000 nodelay;"
		}

		conf := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, upstream, address, limit), 0o600); err != nil {
			return server{}, err
		}

		return program(address, exec.Command(path, "-p", dir, "-c", conf)) //nolint:gosec,noctx // the one that was looked up
	}
}
