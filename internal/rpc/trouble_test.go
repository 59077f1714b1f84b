package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leaseway/leaseway/internal/proctest"
)

func TestATroubleInShort(t *testing.T) {
	dialing := status.Error(codes.Unavailable,
		`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`)

	for want, err := range map[string]error{
		"connection refused": dialing,
		"lookup nowhere: no such host": status.Error(codes.Unavailable,
			`connection error: desc = "transport: Error while dialing: dial tcp: lookup nowhere: no such host"`),
		"authentication handshake failed": status.Error(codes.Unavailable, `connection error: desc = "transport: authentication handshake failed"`),
		"no answer in time":               fmt.Errorf("rpc: coordinator a: %w", status.Error(codes.DeadlineExceeded, "context deadline exceeded")),
		"show a token":                    fmt.Errorf("rpc: coordinator a: %w", status.Error(codes.Unauthenticated, "show a token")),
		"of our own":                      errors.New("of our own"),
	} {
		if got := inShort(err); got != want {
			t.Errorf("%v became %q, want %q", err, got, want)
		}
	}

	if got := inShort(fmt.Errorf("rpc: coordinator a: %w", dialing)); got != "connection refused" {
		t.Errorf("wrapped: %q", got)
	}

	// What holders log of a call is as short, and what gRPC said is still to be found in it.
	err := &callError{"a", dialing}
	if got := err.Error(); got != "rpc: coordinator a: connection refused" || status.Code(err.Unwrap()) != codes.Unavailable {
		t.Errorf("a call failed with %q", got)
	}
}

// A client that watches in vain knows why, of each coordinator.
func TestAClientKnowsWhyNobodyAnswers(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = silent.Close() })

	_ = gone.Close()

	urls := []string{gone.Addr().String(), silent.Addr().String()}

	c, err := Dial(Config{URLs: urls, Holder: 1, AllowUnsigned: true})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = c.Close() })

	ctx, cancel := context.WithCancel(t.Context())

	watched := make(chan struct{})

	go func() {
		defer close(watched)

		_ = c.Watch(ctx, 0, nil)
	}()

	t.Cleanup(func() {
		cancel()
		<-watched
	})

	proctest.Eventually(t, "known why", func() bool { return strings.Contains(c.Asked(), urls[0]+" (connection refused), "+urls[1]+" (") })
}
