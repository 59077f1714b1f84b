package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/accesslog"
	"github.com/leaseway/leaseway/rule"
)

// replayRules are the rules for the traffic of a log.
const replayRules = `# The rules of this demo, for an access log.
rules:
  - id: per-address
    description: what one client address may do, over all servers together
    keyBy: ip
    limit: 5
    window: 1s
    burst: 10
`

const (
	replayRate   = 2_500     // requests a second that are sent at most: about half of what two processors can answer
	replayMost   = 1_000_000 // requests that are kept in memory at most
	progressEach = time.Second
)

// replay makes traffic out of an access log: its requests in the order of their times, which are compressed to the duration.
// Every client address is a caller.
func replay(ctx context.Context, cfg Config) (*traffic, error) {
	set, err := rule.Parse("rules.yaml", []byte(replayRules))
	if err != nil {
		return nil, fmt.Errorf("the demo's own rules: %w", err)
	}

	file, err := os.Open(cfg.Log)
	if err != nil {
		return nil, &LogError{err}
	}
	defer file.Close()

	l := &logReader{
		rule: set.Rules[0], rng: rand.New(rand.NewPCG(cfg.Seed, 0x106)), index: map[string]int{},
		most: min(replayMost, int(cfg.Duration.Seconds()*replayRate)),
	}

	if err := l.readAll(ctx, cfg, file); err != nil {
		return nil, err
	}

	if len(l.requests) == 0 {
		return nil, &LogError{l.nothing(cfg.Log)}
	}

	from, to := l.compress(cfg.Duration)
	t := &traffic{
		rules: replayRules, rule: l.rule.ID, callers: l.callers, next: l.next,
		about: []string{
			fmt.Sprintf("%d requests of %d client addresses, from %s to %s, compressed to %v.",
				len(l.requests), len(l.callers), from.Format(time.DateTime), to.Format(time.DateTime), cfg.Duration),
			"Each address may make 5 requests/s, over all servers together, and 10 at once.",
		},
	}

	if left := l.left(); left != "" {
		t.notes = append(t.notes, left)
	}

	return t, nil
}

// LogError says why an access log cannot be replayed. It is a mistake of who named the file.
type LogError struct{ err error }

// Error names the flag and the file.
func (e *LogError) Error() string { return "--log: " + e.err.Error() }

// Unwrap returns the reason.
func (e *LogError) Unwrap() error { return e.err }

// logReader collects what of a log can be sent.
type logReader struct {
	rule     *rule.Rule
	rng      *rand.Rand
	callers  []caller
	index    map[string]int // of callers
	requests []logged
	sent     int
	most     int

	malformed int // lines that no format describes
	junk      int // entries that were no HTTP request, such as TLS on a plain port
	nameless  int // entries whose client is a hostname
	full      bool
	size      int64 // bytes read
	example   string
}

// logged is a request of the log.
type logged struct {
	time time.Time
	shot shot
}

// readAll reads entries until there are enough, and says how far it is.
func (l *logReader) readAll(ctx context.Context, cfg Config, file *os.File) error {
	var size int64
	if info, err := file.Stat(); err == nil {
		size = info.Size()
	}

	count := &countingReader{from: file}
	entries := accesslog.NewReader(cfg.Log, count)
	said := time.Now()

	for n := 0; ; n++ {
		if n%1000 == 0 && time.Since(said) > progressEach {
			said = time.Now()
			cfg.Watcher.Say(fmt.Sprintf("Reading %s: %d requests so far, %.0f %% of the file.",
				cfg.Log, len(l.requests), per100(count.read, size)))
		}

		if n%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}

		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return &LogError{err}
		}

		if len(l.requests) == l.most {
			l.full = true

			break
		}

		if err := l.take(&entry); err != nil {
			return err
		}
	}

	l.size = count.read

	var examples []accesslog.LineError
	if l.malformed, examples = entries.Skipped(); len(examples) > 0 {
		l.example = examples[0].Error()
	}

	return nil
}

// take adds an entry, if it can be sent.
func (l *logReader) take(e *accesslog.Entry) error {
	switch {
	case e.Method == "" || e.Path == "" || e.Path[0] != '/':
		l.junk++

		return nil
	case !e.IP.IsValid():
		l.nameless++

		return nil
	}

	key, _ := l.rule.AppendKey(nil, &rule.Request{IP: e.IP})

	i, known := l.index[string(key)]
	if !known {
		c, err := newCaller(l.rule, string(key), "")
		if err != nil {
			return err
		}

		i = len(l.callers)
		l.index[c.key] = i
		l.callers = append(l.callers, c)
	}

	to, ok := newTarget(e.Path, e.Query)
	if !ok {
		l.junk++

		return nil
	}

	to.method = strings.Clone(e.Method) // an entry shares the memory of its whole line
	to.header = http.Header{"X-Forwarded-For": {e.IP.String()}, "User-Agent": {"leaseway-demo"}}
	l.requests = append(l.requests, logged{time: e.Time, shot: shot{caller: i, server: l.rng.IntN(servers), target: to}})

	return nil
}

// compress gives every request its time in a demo that takes whole, and returns the times of the first and the last in the
// log. A log has whole seconds: the requests of one are spread over it.
func (l *logReader) compress(whole time.Duration) (from, to time.Time) {
	slices.SortStableFunc(l.requests, func(a, b logged) int { return a.time.Compare(b.time) })

	from, to = l.requests[0].time, l.requests[len(l.requests)-1].time
	scale := float64(whole) / float64(to.Sub(from)+time.Second)

	for i := 0; i < len(l.requests); {
		same := i
		for same < len(l.requests) && l.requests[same].time.Equal(l.requests[i].time) {
			same++
		}

		for j := i; j < same; j++ {
			at := float64(l.requests[j].time.Sub(from)) + float64(time.Second)*float64(j-i)/float64(same-i)
			l.requests[j].shot.at = time.Duration(at * scale)
		}

		i = same
	}

	return from, to
}

func (l *logReader) next() (shot, bool) {
	if l.sent == len(l.requests) {
		return shot{}, false
	}

	l.sent++

	return l.requests[l.sent-1].shot, true
}

// nothing says why a log has no request that can be sent.
func (l *logReader) nothing(name string) error {
	switch left := l.left(); {
	case l.size == 0:
		return fmt.Errorf("%s: the file has no lines", name)
	case left == "":
		return fmt.Errorf("%s: the file has only empty lines", name)
	default:
		return fmt.Errorf("%s: no request in it can be sent (%s)", name, left)
	}
}

// left says what was left out.
func (l *logReader) left() string {
	var parts []string

	for _, p := range []struct {
		n    int
		what string
	}{
		{l.malformed, "lines are in no known format"},
		{l.junk, "entries are no HTTP requests"},
		{l.nameless, "entries have a host name where the client's address should be"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}

	var said []string

	if len(parts) > 0 {
		said = append(said, "Left out: "+strings.Join(parts, ", ")+".")
	}

	if l.example != "" {
		said = append(said, "The first such line: "+l.example+".")
	}

	if l.full {
		said = append(said, fmt.Sprintf("The log has more than the %d requests that can be sent in that time: these are the first.",
			l.most))
	}

	return strings.Join(said, " ")
}

// countingReader counts what is read.
type countingReader struct {
	from io.Reader
	read int64
}

// Read reads on.
func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.read += int64(n)

	return n, err
}
