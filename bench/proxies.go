package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leaseway/leaseway/internal/proxy"
)

const (
	proxyCallers = 16                     // connections, each with one request at a time
	proxyTime    = 700 * time.Millisecond // of one measurement
	proxyWarmup  = 200                    // requests of each connection before it
)

// The columns of the table.
const (
	columnRate = iota
	columnMedian
	columnSlow
)

// proxies measures what a proxy costs that limits.
func proxies() contest {
	return contest{
		name: "proxy", title: "A proxy in front of an API",
		about: fmt.Sprintf("%d connections, each with one request at a time, for an answer of 1 KiB from a server of Go that does nothing "+
			"else. "+
			"Callers, server and proxies share this machine's processors, so rates compare and mean nothing alone. nginx has two workers, "+
			"and `limit_req` by address where it limits; Leaseway has one rule by address, and sets its five fields.", proxyCallers),
		columns:  []string{"requests/s", "µs, half are faster", "µs, 99 % are faster"},
		rounds:   5,
		entrants: proxyEntrants(), needs: "there is no nginx on the PATH or in /usr/sbin",
	}
}

// proxyEntrants is empty where there is no nginx.
func proxyEntrants() []entrant {
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return nil
		}
	}

	return []entrant{
		proxied("Leaseway's proxy, one rule", ours, leasewayProxy("rules: [{id: r, keyBy: ip, limit: 1000000000, window: 1s}]")),
		proxied("Leaseway's proxy, no rule", ours, leasewayProxy("rules: []")),
		proxied("httputil.ReverseProxy", peer, plainProxy),
		proxied("nginx, `limit_req`", peer, nginxProxy(path, true)),
		proxied("nginx, no limit", peer, nginxProxy(path, false)),
		proxied("no proxy", floor, func(upstream string) (string, func(), error) { return upstream, func() {}, nil }),
	}
}

// opens starts a proxy before the upstream at an address, and returns its own.
type opens func(upstream string) (address string, closes func(), err error)

func proxied(name string, side side, open opens) entrant {
	return entrant{name: name, side: side, measure: func(column int) (sample, error) {
		page := []byte(strings.Repeat("x", 1<<10))
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }))

		defer upstream.Close()

		address, closes, err := open(upstream.Listener.Addr().String())
		if err != nil {
			return sample{}, err
		}

		defer closes()

		times, took, err := callAll(address)
		if err != nil {
			return sample{}, err
		}

		slices.Sort(times)

		switch column {
		case columnRate:
			return sample{value: float64(len(times)) / took.Seconds()}, nil
		case columnMedian:
			return sample{value: float64(times[len(times)/2].Microseconds())}, nil
		default:
			return sample{value: float64(times[len(times)*99/100].Microseconds())}, nil
		}
	}}
}

// callAll has all callers ask for a while, and returns how long each request took.
func callAll(address string) (times []time.Duration, took time.Duration, err error) {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		errs []error
		warm sync.WaitGroup
	)

	warm.Add(proxyCallers)

	began := time.Now()

	for range proxyCallers {
		all.Go(func() {
			mine, start, err := callOne(address, &warm)

			mu.Lock()
			defer mu.Unlock()

			times, errs = append(times, mine...), append(errs, err)
			if start.After(began) {
				began = start
			}
		})
	}

	all.Wait()

	return times, time.Since(began), errors.Join(errs...)
}

func callOne(address string, warm *sync.WaitGroup) (times []time.Duration, began time.Time, err error) {
	ready := sync.OnceFunc(warm.Done)
	defer ready()

	conn, err := net.Dial("tcp", address) //nolint:noctx // a benchmark ends by itself
	if err != nil {
		return nil, began, err
	}

	defer conn.Close()

	reader := bufio.NewReader(conn)

	for range proxyWarmup {
		if err := askOnce(conn, reader); err != nil {
			return nil, began, err
		}
	}

	ready()
	warm.Wait()

	began = time.Now()

	for before := began; before.Sub(began) < proxyTime; {
		if err := askOnce(conn, reader); err != nil {
			return nil, began, err
		}

		now := time.Now()
		times = append(times, now.Sub(before))
		before = now
	}

	return times, began, nil
}

func askOnce(conn io.Writer, reader *bufio.Reader) error {
	if _, err := io.WriteString(conn, "GET /v1/search?q=x HTTP/1.1\r\nHost: api.example\r\nUser-Agent: bench\r\n\r\n"); err != nil {
		return err
	}

	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		return err
	}

	defer resp.Body.Close()

	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != 1<<10 || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%d with %d bytes (%w)", resp.StatusCode, n, err)
	}

	return nil
}

func leasewayProxy(rules string) opens {
	return func(upstream string) (string, func(), error) {
		l, done, err := embed(rules)
		if err != nil {
			return "", nil, err
		}

		p, err := proxy.New(l, proxy.Config{Upstreams: []string{"http://" + upstream}})
		if err != nil {
			return "", nil, err
		}

		server := httptest.NewServer(p)

		return server.Listener.Addr().String(), func() {
			server.Close()
			p.Close()
			done()
		}, nil
	}
}

// buffers are those of a ReverseProxy that is set up with care: without them it would allocate one for each answer.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte  { return *b.pool.Get().(*[]byte) } //nolint:forcetypeassert // the pool holds nothing else
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

func plainProxy(upstream string) (string, func(), error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: upstream})
			r.SetXForwarded()
		},
		Transport: transport,
		BufferPool: &buffers{pool: sync.Pool{New: func() any {
			b := make([]byte, 32<<10)

			return &b
		}}},
	})

	return server.Listener.Addr().String(), func() {
		server.Close()
		transport.CloseIdleConnections()
	}, nil
}

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
	return func(upstream string) (string, func(), error) {
		dir, err := os.MkdirTemp("", "bench-nginx")
		if err != nil {
			return "", nil, err
		}

		address, err := freeAddress()
		if err != nil {
			return "", nil, err
		}

		limit := ""
		if limits {
			limit = "limit_req zone=z burst=100000 nodelay;"
		}

		conf := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, upstream, address, limit), 0o600); err != nil {
			return "", nil, err
		}

		nginx := exec.Command(path, "-p", dir, "-c", conf) //nolint:gosec,noctx // the one that was looked up; stopped below
		if err := nginx.Start(); err != nil {
			return "", nil, err
		}

		closes := func() {
			_ = nginx.Process.Signal(os.Interrupt)
			_ = nginx.Wait()
			_ = os.RemoveAll(dir)
		}

		if err := untilListens(address); err != nil {
			closes()

			return "", nil, fmt.Errorf("nginx: %w", err)
		}

		return address, closes, nil
	}
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		return "", err
	}

	return listener.Addr().String(), listener.Close()
}

func untilListens(address string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()

	var err error

	for range 500 {
		var conn net.Conn
		if conn, err = net.Dial("tcp", address); err == nil { //nolint:noctx // as above
			return conn.Close()
		}

		<-tick.C
	}

	return err
}
