package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
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
	// MisfitTLS: it speaks TLS, and is called without.
	MisfitTLS
	// MisfitAuthority: nobody whom this holder trusts vouches for its certificate.
	MisfitAuthority
	// MisfitName: its certificate is for other names than the one it is called by.
	MisfitName
	// MisfitCertificate: it wants a certificate of this holder, or another one.
	MisfitCertificate
	// MisfitExpired: its certificate or this holder's is out of date. New ones mend that, and take no restart.
	MisfitExpired
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

			if misfit := r.misfit(ctx, err); misfit != 0 {
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

	if misfit := certificateMisfit(answer.Message()); misfit != 0 {
		return misfit
	}

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

// certificateMisfit says what certificates have to do with an error; 0 for nothing. gRPC keeps no more of it than its text: ours
// says x509, and what the coordinator says of ours is remote.
func certificateMisfit(text string) Misfit {
	_, theirs, isTheirs := strings.Cut(text, "x509: ")
	_, ours, isOurs := strings.Cut(text, "remote error: tls: ")

	switch {
	case strings.Contains(theirs, "expired or is not yet valid"), strings.HasPrefix(ours, "expired certificate"):
		return MisfitExpired
	case strings.Contains(theirs, "unknown authority"):
		return MisfitAuthority
	case isTheirs && (strings.Contains(theirs, "valid for") || strings.Contains(theirs, "validate certificate for")):
		return MisfitName
	case isOurs && strings.Contains(ours, "certificate"):
		return MisfitCertificate
	default:
		return 0
	}
}

// misfit is misfitOf, with a look of its own at who hangs up: gRPC often sees no more of it than that, for the word of a server
// that refuses a certificate, or does not speak plaintext, comes after the connection was made.
func (r *replica) misfit(ctx context.Context, err error) Misfit {
	misfit := misfitOf(err)
	if misfit != 0 || !errors.Is(err, ErrUnavailable) && status.Code(errors.Unwrap(err)) != codes.Unavailable {
		return misfit
	}

	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()

	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // nothing is said over it
	if r.tls {
		config = r.secure().Clone()
		config.NextProtos = []string{"h2"}
	}

	dialer := tls.Dialer{Config: config}

	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(r.host, r.port))

	switch {
	case err != nil && r.tls:
		return certificateMisfit(err.Error())
	case err != nil:
		return 0
	}

	defer conn.Close()

	if !r.tls {
		return MisfitTLS
	}

	end, _ := ctx.Deadline()
	_ = conn.SetReadDeadline(end)

	if _, err := conn.Read(make([]byte, 1)); err != nil { // HTTP/2 begins with what the server has to say
		return certificateMisfit(err.Error())
	}

	return 0
}
