package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/store/redis/joined"
)

// MasterName is what the sentinels call their master.
const MasterName = "main"

// Sentinels are a master, its replica, and three sentinels that look after them.
type Sentinels struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// NewSentinels starts them for tb alone, which says Notice after it killed the master: until then no sentinel takes one for dead
// that a busy machine lets wait.
func NewSentinels(tb testing.TB) *Sentinels {
	tb.Helper()

	s := &Sentinels{Master: NewServer(tb)}
	s.Replica = NewServer(tb, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Master.port), "--repl-diskless-sync-delay", "0")

	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()

	for range 3 {
		sentinel, err := s.start(ctx, tb.TempDir())
		if err != nil {
			tb.Fatal(err)
		}

		tb.Cleanup(sentinel.Kill)

		s.Sentinels = append(s.Sentinels, sentinel)
	}

	err := joined.Eventually(ctx, func() error { return s.ready(ctx) })
	if err != nil {
		tb.Fatal(err)
	}

	return s
}

// Notice has the sentinels find that the master is gone, in half a second.
func (s *Sentinels) Notice(tb testing.TB) {
	tb.Helper()

	for _, sentinel := range s.Sentinels {
		if err := sentinel.Do(tb.Context(), "SENTINEL", "SET", MasterName, "down-after-milliseconds", "500"); err != nil {
			tb.Fatal(err)
		}
	}
}

// Heard returns when the replica has heard of all that was written to the master. WAIT would only say so of what its own connection wrote.
func (s *Sentinels) Heard(tb testing.TB) {
	tb.Helper()

	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()

	err := joined.Eventually(ctx, func() error {
		info, err := s.Master.Ask(ctx, "INFO", "replication")
		if at := offsets.FindStringSubmatch(info); err == nil && (len(at) == 0 || at[1] != at[2]) {
			err = fmt.Errorf("the replica has not heard of all: %s", info)
		}

		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// offsets are how far a master has written, and how far a replica that follows it says to have read.
var offsets = regexp.MustCompile(`(?s)state=online,offset=(\d+).*master_repl_offset:(\d+)`)

// start starts one sentinel in dir.
func (s *Sentinels) start(ctx context.Context, dir string) (*Server, error) {
	ports, err := proctest.FreePorts(1)
	if err != nil {
		return nil, err
	}

	port, path := ports[0], filepath.Join(dir, "sentinel.conf")
	lines := []string{
		"port " + strconv.Itoa(port), "bind 127.0.0.1", "protected-mode no", "dir " + dir, "loglevel warning",
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", MasterName, s.Master.port),
		"sentinel down-after-milliseconds " + MasterName + " 60000", "sentinel failover-timeout " + MasterName + " 3000",
	}

	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}

	sentinel := &Server{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Dir: dir, port: port}

	if err := sentinel.boot(ctx, []string{path, "--sentinel"}); err != nil {
		return nil, err
	}

	return sentinel, nil
}

// ready returns an error unless each sentinel knows the others and the replica, which has the master's data.
func (s *Sentinels) ready(ctx context.Context) error {
	for _, sentinel := range s.Sentinels {
		if _, err := sentinel.Ask(ctx, "SENTINEL", "CKQUORUM", MasterName); err != nil {
			return err
		}

		state, err := sentinel.Ask(ctx, "INFO", "sentinel")
		if err != nil {
			return err
		}

		if !strings.Contains(state, "slaves=1,sentinels=3") {
			return fmt.Errorf("%s does not know all yet: %s", sentinel.Address, state)
		}
	}

	link, err := s.Replica.Ask(ctx, "INFO", "replication")
	if err == nil && !strings.Contains(link, "master_link_status:up") {
		err = fmt.Errorf("the replica has no data yet: %s", link)
	}

	return err
}

// Addresses returns host:port of the sentinels.
func (s *Sentinels) Addresses() (list []string) {
	for _, sentinel := range s.Sentinels {
		list = append(list, sentinel.Address)
	}

	return list
}
