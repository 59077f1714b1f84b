package rpc

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What will come again stops a holder at its start; what may pass must not.
func TestOnlyWhatWillComeAgainIsAMisfit(t *testing.T) {
	answer := func(code codes.Code, text string) error {
		return wrapped{status.Error(code, text)}
	}

	for name, row := range map[string]struct {
		err  error
		want Misfit
	}{
		"nobody":             {answer(codes.Unavailable, "connection error: desc = \"connection refused\""), 0},
		"late":               {answer(codes.DeadlineExceeded, "late"), 0},
		"not called":         {ErrUnavailable, 0},
		"a proxy, no server": {answer(codes.Unavailable, "unexpected HTTP status code received from server: 503"), 0},
		"a web server":       {answer(codes.Unimplemented, "unexpected HTTP status code received from server: 404"), MisfitProtocol},
		"a web page":         {answer(codes.Unknown, "unexpected content-type \"text/html\""), MisfitProtocol},
		"HTTP/1":             {answer(codes.Unavailable, "the frame header looked like an HTTP/1.1 header"), MisfitProtocol},
		"no TLS":             {answer(codes.Unavailable, "tls: first record does not look like a TLS handshake"), MisfitPlaintext},
		"nobody vouches":     {answer(codes.Unavailable, "handshake failed: tls: x509: certificate signed by unknown authority"), MisfitAuthority},
		"another host":       {answer(codes.Unavailable, "x509: certificate is valid for a.example, not b.example"), MisfitName},
		"no addresses":       {answer(codes.Unavailable, "x509: cannot validate certificate for 127.0.0.1 because"), MisfitName},
		"its end":            {answer(codes.Unavailable, "x509: certificate has expired or is not yet valid: current time"), MisfitExpired},
		"our end":            {answer(codes.Unavailable, "error reading server preface: remote error: tls: expired certificate"), MisfitExpired},
		"no certificate":     {answer(codes.Unavailable, "error reading server preface: remote error: tls: certificate required"), MisfitCertificate},
		"a stranger's":       {answer(codes.Unavailable, "remote error: tls: unknown certificate authority"), MisfitCertificate},
		"another alert":      {answer(codes.Unavailable, "remote error: tls: internal error"), 0},
		"token":              {answer(codes.Unauthenticated, "no valid bearer token"), MisfitToken},
		"forbidden":          {answer(codes.PermissionDenied, "no"), MisfitToken},
		"a holder":           {answer(codes.Unimplemented, "unknown service"), MisfitRole},
		"another key":        {&RefusedError{Cause: CauseKey, Err: errors.New("key")}, MisfitKey},
		"unsigned":           {&RefusedError{Cause: CauseSignature, Err: errors.New("unsigned")}, MisfitKey},
		"older rules":        {&RefusedError{Cause: CauseOlderRules, Err: errors.New("old")}, 0},
	} {
		if got := misfitOf(row.err); got != row.want {
			t.Errorf("%s: got %d, want %d", name, got, row.want)
		}
	}
}

// wrapped is an error as replicas return it.
type wrapped struct{ error }

func (w wrapped) Unwrap() error { return w.error }
