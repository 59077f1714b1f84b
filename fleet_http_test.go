package leaseway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewayhttp"
)

// serverEnv has a copy of this program be an API server until it is killed: address, name and workers.
const serverEnv = "LEASEWAY_TEST_SERVER"

// TestServerChild is the child of the test below, and nothing otherwise. A request to /hold is under way until its client leaves;
// /stats says how many are in flight in this server, and what the fleet's capacity is.
func TestServerChild(t *testing.T) {
	job := strings.Fields(os.Getenv(serverEnv))
	if len(job) != 3 {
		t.Skip("it is for a child process")
	}

	workers, _ := strconv.Atoi(job[2])

	l, err := leaseway.Dial(t.Context(), job[:1], leaseway.WithName(job[1]), leaseway.WithWorkers(workers), patient())
	if err != nil {
		t.Fatal(err)
	}

	api := http.NewServeMux()
	api.HandleFunc("/hold", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})

	mux := http.NewServeMux()
	mux.Handle("/", leasewayhttp.New(l).Handler(api))
	mux.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		s := l.Stats().Shedders[0]
		fmt.Fprintln(w, s.InFlight, s.Capacity)
	})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	fmt.Println("serves", listener.Addr())

	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	t.Fatal(server.Serve(listener))
}

// apiServer is a process of its own that serves HTTP.
type apiServer struct {
	t   *testing.T
	url string
	cmd *exec.Cmd
}

// server starts an API server with so many workers.
func (f *fleet) server(t *testing.T, name string, workers int) *apiServer {
	t.Helper()

	cmd, address := startChild(t, "TestServerChild", fmt.Sprintf("%s=%s %s %d", serverEnv, f.addr, name, workers), "serves ")

	return &apiServer{t: t, url: "http://" + address, cmd: cmd}
}

// hold sends a request that is under way until its answer's body is closed, and returns the answer.
func (s *apiServer) hold(method string) *http.Response {
	s.t.Helper()

	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/hold", http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}

	return resp
}

func (s *apiServer) stats() (inFlight, capacity int) {
	s.t.Helper()

	resp, err := http.Get(s.url + "/stats")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}

	if _, err := fmt.Sscan(string(text), &inFlight, &capacity); err != nil {
		s.t.Fatal(err)
	}

	return inFlight, capacity
}

// until asks the server until it says what is waited for.
func (s *apiServer) until(what string, is func(inFlight, capacity int) bool) {
	s.t.Helper()

	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for {
		inFlight, capacity := s.stats()
		if is(inFlight, capacity) {
			return
		}

		select {
		case <-deadline.C:
			s.t.Fatalf("%s: %d in flight, a capacity of %d", what, inFlight, capacity)
		case <-tick.C:
		}
	}
}

// Three servers, each a process of its own, have four workers each: the fleet serves 12 at once, of which nine may be reads,
// whichever servers they come to. Charges are always served. When a server is killed the fleet is smaller, and when clients have
// gone nothing is in flight.
func TestTheFleetShedderOverServers(t *testing.T) {
	if testing.Short() {
		t.Skip("the capacity follows slowly; run without -short")
	}

	t.Parallel()

	const workers = 4

	f := newFleet(t, "rules: []\nclasses: [{class: critical, scope: {methods: POST}}]\nshedders: {fleet: {capacity: workers, reserve: 25%}}", 0)
	servers := []*apiServer{f.server(t, "a", workers), f.server(t, "b", workers), f.server(t, "c", workers)}

	for _, s := range servers {
		s.until("all announce their workers", func(_, capacity int) bool { return capacity == 3*workers })
	}

	var (
		mu     sync.Mutex
		held   []*http.Response
		shed   int
		asking sync.WaitGroup
	)

	// All to two of the servers, and more than may be.
	for i := range 40 {
		asking.Go(func() {
			resp := servers[i%2].hold(http.MethodGet)

			mu.Lock()
			defer mu.Unlock()

			switch resp.StatusCode {
			case http.StatusOK:
				held = append(held, resp) //nolint:bodyclose // it is held
			case http.StatusServiceUnavailable:
				shed++

				if resp.Header.Get("Leaseway-Reason") != "shed_fleet" || resp.Header.Get("Retry-After") == "" {
					t.Errorf("refused with %v", resp.Header)
				}

				resp.Body.Close()
			default:
				t.Errorf("status %d", resp.StatusCode)
				resp.Body.Close()
			}
		})
	}

	asking.Wait()

	if len(held) != 9 || shed != 31 {
		t.Errorf("%d reads were served at once and %d refused, want 9 and 31", len(held), shed)
	}

	for i := range 6 { // critical ones pass the capacity, too
		resp := servers[i%3].hold(http.MethodPost) //nolint:bodyclose // it is held
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a charge: %d", resp.StatusCode)
		}

		held = append(held, resp) //nolint:bodyclose // it is held
	}

	for _, resp := range held {
		resp.Body.Close()
	}

	for _, s := range servers {
		s.until("clients have gone", func(inFlight, _ int) bool { return inFlight == 0 })
	}

	kill(t, servers[2].cmd)
	servers[0].until("a server was killed", func(_, capacity int) bool { return capacity == 2*workers })
	http.DefaultClient.CloseIdleConnections()
}
