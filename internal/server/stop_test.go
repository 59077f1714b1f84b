package server

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

// A request that is under way when the stop comes is answered; later ones are not taken.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	r := start(t, "--rules", file(t, thingsRules))

	// Half a request: the server has its head and waits for the body.
	conn, err := net.Dial("tcp", r.HTTP)
	must(t, err)

	defer conn.Close()

	body := things("ada", 1)
	head := "POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: "
	_, err = conn.Write([]byte(head + strconv.Itoa(len(body)) + "\r\n\r\n"))
	must(t, err)

	answer := make([]byte, 4096)

	n, err := conn.Read(answer)
	must(t, err)

	if got := string(answer[:n]); !strings.Contains(got, "100 Continue") {
		t.Fatalf("got %q, want to be asked for the body", got)
	}

	r.stop()
	eventually(t, "no new connection is taken", func() bool {
		late, err := net.Dial("tcp", r.HTTP)
		if err == nil {
			late.Close()
		}

		return err != nil
	})

	_, err = conn.Write([]byte(body))
	must(t, err)

	n, err = conn.Read(answer)
	must(t, err)

	if got := string(answer[:n]); !strings.Contains(got, "200 OK") || !strings.Contains(got, `"allowed":true`) {
		t.Errorf("the request under way got %q", got)
	}
}

// Holders that watch the rules would keep a connection forever; a stop must send them elsewhere.
func TestStopDoesNotWaitForWatchers(t *testing.T) {
	r := start(t, "--rules", file(t, thingsRules))

	stream, err := leasewayv1.NewCoordinatorServiceClient(r.dial(t, nil)).
		WatchRules(t.Context(), &leasewayv1.WatchRulesRequest{Holder: 1, Name: "test"})
	must(t, err)

	_, err = stream.Recv()
	must(t, err)

	must(t, r.end(t))

	if _, err := stream.Recv(); err == nil {
		t.Error("the watcher was not told")
	}

	if strings.Contains(r.Log.String(), "cut off") {
		t.Errorf("something did not end in time:\n%s", r.Log)
	}
}

func TestReadinessOverGRPCIsThatOverHTTP(t *testing.T) {
	r := start(t)

	got, err := healthv1.NewHealthClient(r.dial(t, nil)).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestStopBeforeTheStartIsNoFailure(t *testing.T) {
	config, err := load([]string{"--coordinator", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir", dataDir(t)}, nil)
	must(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	log := &buffer{}
	done := make(chan error, 1)

	go func() { done <- Run(ctx, config, log) }()

	cancel() // while it waits for a coordinator

	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
}

// What panics costs one request, not the process; and it is counted.
func TestPanicsAreContained(t *testing.T) {
	var (
		panics atomic.Int64
		log    buffer
	)

	buggy := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") })
	w := httptest.NewRecorder()
	recovering(buggy, &panics, log.logger()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/any", http.NoBody))

	if w.Code != http.StatusInternalServerError || panics.Load() != 1 || !strings.Contains(log.String(), "a bug") {
		t.Errorf("got %d, %d panics, log %s", w.Code, panics.Load(), &log)
	}
}

// A network file system may never answer: the process stops, and its counts are kept, all the same.
func TestStopDoesNotWaitForAReadThatHangs(t *testing.T) {
	config, err := load([]string{"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir", dataDir(t)}, nil)
	must(t, err)

	look, hung, release := make(chan os.Signal), make(chan struct{}), make(chan struct{})
	config.Look = look

	log := &buffer{}
	s := &server{config: config, log: log.logger()}
	must(t, s.open(t.Context()))
	s.follower.follow(file(t, "text"), func() {
		close(hung)
		<-release
	})

	defer close(release)

	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)

	go func() { served <- s.serve(ctx) }()

	look <- syscall.SIGHUP

	<-hung
	cancel()
	must(t, <-served)
	must(t, s.close(t.Context()))

	if !strings.Contains(log.String(), "cannot be read to its end") {
		t.Errorf("the log does not say so:\n%s", log)
	}
}
