package proctest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePorts returns different ports of 127.0.0.1 that nobody listens at. They are below those that systems hand out to
// connections: nobody connects from one before it is used, or while what listens there is started again.
func FreePorts(n int) ([]int, error) {
	const lowest, ports, tries = 10_000, 10_000, 100

	var last error

	free := make([]int, 0, n)

	for range tries + n {
		if len(free) == n {
			return free, nil
		}

		port := lowest + rand.IntN(ports)

		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // it does not wait
		if err != nil {
			last = err

			continue
		}
		defer listener.Close() //nolint:gocritic // once all are found, so that none is found twice

		free = append(free, port)
	}

	return nil, fmt.Errorf("find %d free ports on 127.0.0.1: %w", n, last)
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
