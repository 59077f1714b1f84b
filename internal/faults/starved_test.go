//go:build unix

package faults

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaseway/leaseway"

	"github.com/leaseway/leaseway/internal/proctest"
)

// A server of one processor that its machine stops again and again, each time for twice as long as its leases live, while clients
// wait at its door: what it, and a program that shares the limit, let pass in any stretch of time is what the limit allows, and the
// few tokens that may be spent blindly when it wakes.
func TestAStarvedServerKeepsTheLimit(t *testing.T) {
	const (
		rate, burst = 400, 200
		pauses      = 4
		clients     = 4
		blind       = 64
	)

	c := newCoordinator(t, "rules: [{id: r, keyBy: user, limit: 400, window: 1s, burst: 200, onUnavailable: deny}]")
	addresses := proctest.FreeAddresses(t, 2)

	cmd := exec.Command(os.Args[0], "serve", "--coordinator", c.grpc, "--coordinator-key", c.said("publicKey")[0],
		"--listen", addresses[0], "--grpc-listen", addresses[1], "--data-dir", c.path("starved"), "--log-format", "json")
	cmd.Env = []string{role + "=program", "GOMAXPROCS=1"}
	starved := proctest.Start(t, cmd)
	starved.Answers(t, addresses[0])

	tr := send(t, dial(t, 1, []string{c.grpc}), load{rule: "r", key: "k"})
	client := &http.Client{}
	end := make(chan struct{})

	var work sync.WaitGroup

	for range clients {
		work.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}

				before := time.Since(tr.began)
				allowed, err := checked(client, addresses[0])
				after := time.Since(tr.began)

				if err != nil {
					t.Error(err)

					return
				}

				if allowed {
					tr.mu.Lock()
					tr.admitted = append(tr.admitted, admission{before, after, leaseway.OriginNone})
					tr.mu.Unlock()
				}
			}
		})
	}

	for range pauses {
		here := len(tr.of(leaseway.OriginNone))

		eventually(t, "both are at it", func() bool { return len(tr.of(leaseway.OriginNone)) > here+10 })
		starved.Signal(syscall.SIGSTOP)

		stopped := time.Since(tr.began)

		eventually(t, "its leases have ended, twice over", func() bool { return time.Since(tr.began) > stopped+time.Second })
		starved.Signal(syscall.SIGCONT)
	}

	close(end)
	work.Wait()
	tr.stop()
	client.CloseIdleConnections()

	all := tr.of(leaseway.OriginLease, leaseway.OriginStore, leaseway.OriginNone)
	if over := excess(all, burst, rate); over > blind*pauses {
		t.Errorf("a window admitted %.1f above burst + rate × time", over)
	} else {
		t.Logf("%d were admitted; the worst window has %.1f more than burst + rate × time", len(all), over)
	}
}

// checked asks a server's door for one token of key "k", and returns whether it passed.
func checked(client *http.Client, address string) (bool, error) {
	resp, err := client.Post("http://"+address+"/v1/check", "application/json", strings.NewReader(`{"attributes": {"user": "k"}}`))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()

	var answer struct {
		Allowed bool `json:"allowed"`
	}

	err = json.NewDecoder(resp.Body).Decode(&answer)

	return answer.Allowed, err
}
