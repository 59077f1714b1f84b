package proctest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports are below those that systems hand out to connections: nobody connects from one before it is used, or while what listens
// there is started again. They are in blocks, of which a process has one for itself as long as it lives: tests of several packages
// run at a time, and what one has found free must not be taken by another before it is used.
const (
	lowestPort = 10_000
	blocks     = 50
	blockPorts = 200
)

// block is what a process has claimed.
type block struct {
	claim net.Listener // at its first port: who listens there has it
	first int

	mu   sync.Mutex
	next int // of its other ports, which are handed out in turn
}

// ours is the block of this process, claimed when it is first asked for a port.
var ours = sync.OnceValues(claimBlock) //nolint:gochecknoglobals // it is the process's

func claimBlock() (*block, error) {
	for _, i := range rand.Perm(blocks) {
		first := lowestPort + i*blockPorts

		if claim, err := listen(first); err == nil {
			return &block{claim: claim, first: first}, nil
		}
	}

	return nil, errors.New("other processes have claimed all ports for tests")
}

// FreePorts returns different ports of 127.0.0.1 that nobody listens at, and that were not returned for long.
func FreePorts(n int) ([]int, error) {
	b, err := ours()
	if err != nil {
		return nil, err
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	free := make([]int, 0, n)

	for tried := 0; tried < blockPorts-1 && len(free) < n; tried++ {
		port := b.first + 1 + b.next
		b.next = (b.next + 1) % (blockPorts - 1)

		if l, err := listen(port); err == nil {
			_ = l.Close()

			free = append(free, port)
		}
	}

	if len(free) < n {
		return nil, fmt.Errorf("of the ports above %d on 127.0.0.1 only %d are free, and %d are needed", b.first, len(free), n)
	}

	return free, nil
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // it does not wait
}

// FreeAddress returns host:port of one.
func FreeAddress(tb testing.TB) string {
	tb.Helper()

	return FreeAddresses(tb, 1)[0]
}

// FreeAddresses returns host:port of several. Ask at once for all that one thing needs.
func FreeAddresses(tb testing.TB, n int) []string {
	tb.Helper()

	ports, err := FreePorts(n)
	if err != nil {
		tb.Fatal(err)
	}

	addresses := make([]string, n)
	for i, port := range ports {
		addresses[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}

	return addresses
}
