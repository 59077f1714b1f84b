package leasewayredis_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
	"github.com/leaseway/leaseway/leasewayredis"
)

// transcript is a log that several may write to.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to it.
func (l *transcript) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.Write(b)
}

func (l *transcript) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	return strings.Contains(l.text.String(), text)
}

// A Redis that is there, and refuses: it is no free pass and no failure of the program. Each rule's onUnavailable decides,
// and what Redis says is in the log.
func TestRefusingRedis(t *testing.T) {
	for _, test := range []struct {
		name      string
		bad, good [][]string
		says      string
	}{
		{
			name: "it is full", says: "OOM",
			bad: [][]string{{"CONFIG", "SET", "maxmemory", "1"}}, good: [][]string{{"CONFIG", "SET", "maxmemory", "0"}},
		},
		{
			name: "the password is another one", says: "WRONGPASS",
			bad:  [][]string{{"ACL", "SETUSER", "app", "resetpass", ">other"}, {"CLIENT", "KILL", "USER", "app"}},
			good: [][]string{{"ACL", "SETUSER", "app", ">secret"}},
		},
		{
			name: "the rights are gone", says: "NOPERM",
			bad: [][]string{{"ACL", "SETUSER", "app", "-fcall"}}, good: [][]string{{"ACL", "SETUSER", "app", "+fcall"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := redistest.NewServer(t)
			do := func(commands [][]string) {
				for _, command := range commands {
					if err := server.Do(t.Context(), command...); err != nil {
						t.Fatal(err)
					}
				}
			}

			do([][]string{{"ACL", "SETUSER", "app", "on", ">secret", "~rl:*", "+@all"}})

			log := &transcript{}
			l := open(t, "redis://app:secret@"+server.Address, `
rules:
  - {id: open, keyBy: user, limit: 5, window: 1h, onUnavailable: allow}
  - {id: closed, keyBy: user, limit: 5, window: 1h, onUnavailable: deny}
  - {id: own, keyBy: user, limit: 5, window: 1h, fallback: {limit: 5, window: 60s}}
`, leasewayredis.WithLimiter(leaseway.WithDeadline(unhurried)), leasewayredis.WithLogger(slog.New(slog.NewTextHandler(log, nil))))

			if n, degraded := take(l, "open", "before", 5); n != 5 || degraded != 0 {
				t.Fatalf("%d passed, %d without Redis", n, degraded)
			}

			do(test.bad)

			for id, want := range map[string]int{"open": 10, "closed": 0, "own": 5} {
				if n, degraded := take(l, id, "during", 10); n != want || degraded != want {
					t.Errorf("%s: %d of 10 passed, %d of them as without Redis; want %d", id, n, degraded, want)
				}
			}

			r, err := l.Rule("closed")
			if err != nil {
				t.Fatal(err)
			}

			if d := r.Take("during"); d.Allowed || d.Reason != leaseway.ReasonUnavailable || d.RetryAfter <= 0 {
				t.Errorf("a rule that denies in an outage says %+v", d)
			}

			eventually(t, "the log says why", func() bool {
				take(l, "open", "during", 1)

				return log.has(test.says)
			})

			do(test.good)

			fresh := 0

			eventually(t, "Redis is asked again", func() bool {
				fresh++
				_, degraded := take(l, "open", strings.Repeat("k", fresh), 1)

				return degraded == 0
			})
		})
	}
}

// A caller that goes away is no failure of Redis, and costs nobody anything.
func TestACallerThatLeaves(t *testing.T) {
	server := redistest.NewServer(t)
	l := open(t, "redis://"+server.Address, `rules: [{id: r, keyBy: user, limit: 10, window: 1h, onUnavailable: deny}]`,
		leasewayredis.WithLimiter(leaseway.WithDeadline(unhurried)))

	if n, _ := take(l, "r", "before", 1); n != 1 {
		t.Fatal("it does not work")
	}

	if err := server.Do(t.Context(), "CLIENT", "PAUSE", "60000", "WRITE"); err != nil {
		t.Fatal(err)
	}

	var all sync.WaitGroup

	for range 10 {
		all.Go(func() {
			ctx, leave := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer leave()

			if d := l.Decide(ctx, leaseway.Request{User: "ada"}); d.Allowed {
				t.Errorf("who left was let in: %+v", d)
			}
		})
	}

	all.Wait()

	if err := server.Do(t.Context(), "CLIENT", "UNPAUSE"); err != nil {
		t.Fatal(err)
	}

	if stats := l.Stats(); stats.Failed != 0 || l.Degraded() {
		t.Errorf("%d calls failed, degraded %v", stats.Failed, l.Degraded())
	}

	passed := 0

	eventually(t, "what they had taken is there again", func() bool {
		n, _ := take(l, "r", "ada", 10)
		passed += n

		return passed >= 10
	})

	if passed > 10 {
		t.Errorf("%d of 10 passed", passed)
	}
}
