//go:build unix

package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

// slotsMain is a server with requests in flight as a process of its own. For each line on in, a number, it begins as many requests
// of key "k" of rule "r", or ends as many if it is below 0, and writes how many it began. It ends with in.
func slotsMain(url, name string, in io.Reader, out io.Writer) int {
	l, err := leaseway.Dial(context.Background(), []string{url}, leaseway.WithName(name), leaseway.WithDeadline(unhurried))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	rule, err := l.Rule("r")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	s := slotServer{limiter: l, rule: rule}

	fmt.Fprintln(out, "ready")

	for lines := bufio.NewScanner(in); lines.Scan(); {
		n, _ := strconv.Atoi(lines.Text())
		if n < 0 {
			s.end(-n)
		}

		fmt.Fprintln(out, "took", s.begin(n), 0)
	}

	return 0
}

// slotServer is a server with requests in flight.
type slotServer struct {
	limiter  *leaseway.Limiter
	rule     *leaseway.Rule
	inFlight []leaseway.Decision
}

// newSlotServer returns one that asks the coordinator at url.
func newSlotServer(t *testing.T, url, name string) *slotServer {
	t.Helper()

	l := dial(t, 1, []string{url}, leaseway.WithName(name), leaseway.WithDeadline(unhurried))[0]

	rule, err := l.Rule("r")
	if err != nil {
		t.Fatal(err)
	}

	return &slotServer{limiter: l, rule: rule}
}

// begin tries n requests, and returns how many are in flight now that were not before.
func (s *slotServer) begin(n int) (began int) {
	for range n {
		if d := s.rule.Take("k"); d.Allowed {
			s.inFlight = append(s.inFlight, d)
			began++
		}
	}

	return began
}

// end ends n requests.
func (s *slotServer) end(n int) {
	for _, d := range s.inFlight[:n] {
		s.limiter.Done(d)
	}

	s.inFlight = s.inFlight[n:]
}

// gets waits until n requests have begun.
func (s *slotServer) gets(t *testing.T, n int) {
	t.Helper()

	eventually(t, fmt.Sprintf("%d slots are there", n), func() bool { n -= s.begin(n); return n == 0 })
}

// full waits until the coordinator has refused a request, before which none is admitted. A server that has every slot itself
// need not ask.
func (s *slotServer) full(t *testing.T) {
	t.Helper()

	eventually(t, "the coordinator refuses one more", func() bool {
		d := s.rule.Take("k")
		if d.Allowed {
			s.inFlight = append(s.inFlight, d)
			t.Error("one more is in flight than may be")
		}

		return d.Origin == leaseway.OriginStore || d.Limit == int64(len(s.inFlight)) && !d.Origin.Degraded()
	})
}

const slotRules = "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 20, lease: {ttl: TTL}, onUnavailable: deny}]"

// A server that is cut off for longer than its slots live goes on with what it has in flight, and begins nothing. The
// others have its slots then, and not before: so long more are in flight than may be, by what is in flight there.
// When it is back, that counts.
func TestSlotsOfAServerThatIsCutOff(t *testing.T) {
	const limit, there, ttl = 20, 8, 1500 * time.Millisecond

	c := newCoordinator(t, strings.Replace(slotRules, "TTL", ttl.String(), 1))
	way := newLink(t, c.grpc)
	cut, other := newSlotServer(t, way.Listen, "cut"), newSlotServer(t, c.grpc, "other")
	given := time.Now()

	cut.gets(t, there)
	other.gets(t, limit-there)
	other.full(t)
	way.Stop()
	other.gets(t, there)

	if took := time.Since(given); took < ttl {
		t.Errorf("its slots were given to another after %v, while it had them for %v", took, ttl)
	}

	other.full(t)

	if n := cut.begin(50); n > 0 {
		t.Errorf("a server whose slots are another's began %d requests", n)
	}

	way.up()
	cut.full(t) // now the coordinator knows what is in flight there
	other.end(there)
	eventually(t, "the other one has given back what is too many", func() bool {
		return other.limiter.Stats().Slots[0].Held == limit-there
	})
	other.full(t)
	cut.full(t)

	cut.end(there)
	other.gets(t, there)
	other.full(t)
	other.end(limit)
	cut.gets(t, limit)
	cut.full(t)
}

// A server that is killed gives its slots up when they end; nobody has them before that.
func TestSlotsOfAServerThatIsKilled(t *testing.T) {
	const limit, there, ttl = 20, 8, 1500 * time.Millisecond

	c := newCoordinator(t, strings.Replace(slotRules, "TTL", ttl.String(), 1))
	way := newLink(t, c.grpc)
	other := newSlotServer(t, c.grpc, "other")
	doomed := newRemoteSlots(t, way.Listen, "doomed")
	given := time.Now()

	doomed.begins(t, there, there)
	other.gets(t, limit-there)
	other.full(t)
	doomed.Kill()
	other.gets(t, there)

	if took := time.Since(given); took < ttl {
		t.Errorf("its slots were given to another after %v, while it had them for %v", took, ttl)
	}

	other.full(t)
}

// A server that starts again under the name of one that was killed has its slots at once, however long they would live,
// and nobody else has.
func TestSlotsOfAServerThatStartsAgain(t *testing.T) {
	const limit, there = 20, 8

	c := newCoordinator(t, strings.Replace(slotRules, "TTL", "10m", 1)) // far longer than anything waits here
	way := newLink(t, c.grpc)
	other := newSlotServer(t, c.grpc, "other")
	doomed := newRemoteSlots(t, way.Listen, "phoenix")

	doomed.begins(t, there, there)
	other.gets(t, limit-there)
	other.full(t)

	for range 3 {
		doomed.Kill()
		way.Stop() // what was under way is gone as well
		way.up()
		other.full(t)

		doomed = newRemoteSlots(t, way.Listen, "phoenix")
		doomed.begins(t, limit, there)
		other.full(t)
	}
}

// newRemoteSlots starts a slotServer that is a process of its own.
func newRemoteSlots(t *testing.T, url, name string) *remote {
	t.Helper()

	r := &remote{Process: start(t, "slots", url, name)}
	eventually(t, "the server is ready", func() bool { return strings.Contains(r.Log.String(), "ready") })

	return r
}

// begins has it try n requests, of which want begin.
func (r *remote) begins(t *testing.T, n, want int) {
	t.Helper()
	r.ask(t, n)

	if got, _ := r.taken(t); got != want {
		t.Errorf("%d of %d requests began, want %d", got, n, want)
	}
}
