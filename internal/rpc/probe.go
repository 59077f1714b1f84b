package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Misfit says why whoever is at a coordinator's address will never answer as things are set. The set is closed.
type Misfit uint8

// The misfits.
const (
	// MisfitToken: it wants another token, or any.
	MisfitToken Misfit = iota + 1
	// MisfitKey: it signs with another key than those that are pinned, or not at all.
	MisfitKey
	// MisfitRole: it speaks gRPC and is no coordinator.
	MisfitRole
	// MisfitProtocol: it does not speak gRPC.
	MisfitProtocol
	// MisfitPlaintext: it does not speak TLS, and is called over it.
	MisfitPlaintext
)

// MisfitError is a coordinator that is there, and does not go with what this holder was told.
type MisfitError struct {
	Misfit  Misfit
	Replica string // the coordinator's URL
	Err     error  // what it answered
}

// Error names the coordinator and what it answered.
func (e *MisfitError) Error() string {
	return fmt.Sprintf("rpc: coordinator %s does not fit: %v", e.Replica, e.Err)
}

// Unwrap returns what it answered.
func (e *MisfitError) Unwrap() error { return e.Err }

// Probe calls every coordinator once, with a batch that asks for nothing. The error is nil when one answers as it should or
// when nobody answers, which may pass; and a *MisfitError when all who answer are ones that waiting will not mend.
func (c *Client) Probe(ctx context.Context) error {
	misfits := make([]*MisfitError, len(c.replicas))
	fits := make([]bool, len(c.replicas))

	var calls sync.WaitGroup

	for i, r := range c.replicas {
		calls.Go(func() {
			_, err := c.storeOf(ctx, r)
			if fits[i] = err == nil; fits[i] {
				return
			}

			if misfit := misfitOf(err); misfit != 0 {
				misfits[i] = &MisfitError{Misfit: misfit, Replica: r.url, Err: err}
			}
		})
	}

	calls.Wait()

	var first error

	for i := range c.replicas {
		switch {
		case fits[i]:
			return nil
		case misfits[i] != nil && first == nil:
			first = misfits[i]
		}
	}

	return first
}

// misfitOf tells the errors that will come again from those that may pass; 0 for the latter.
func misfitOf(err error) Misfit {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		if refused.Cause == CauseKey || refused.Cause == CauseSignature {
			return MisfitKey
		}

		return 0
	}

	// gRPC gives what is no gRPC the code that HTTP's status comes nearest to, and only the text says so.
	answer := status.Convert(errors.Unwrap(err))
	foreign := strings.Contains(answer.Message(), "unexpected HTTP status code") ||
		strings.Contains(answer.Message(), "unexpected content-type")

	switch code := answer.Code(); {
	case strings.Contains(answer.Message(), "looked like an HTTP/1.1 header"), foreign && code != codes.Unavailable:
		return MisfitProtocol
	case strings.Contains(answer.Message(), "first record does not look like a TLS handshake"):
		return MisfitPlaintext
	case code == codes.Unauthenticated, code == codes.PermissionDenied:
		return MisfitToken
	case code == codes.Unimplemented:
		return MisfitRole
	default:
		return 0
	}
}
