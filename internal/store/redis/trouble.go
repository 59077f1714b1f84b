package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// Trouble says why a Redis cannot be used. The set is closed.
type Trouble uint8

// The troubles.
const (
	TroubleOther       Trouble = iota
	TroublePassword            // user or password are wrong
	TroubleNoPassword          // it wants a password, and was given none
	TroubleRights              // the user may not do what is needed
	TroubleNobody              // nothing listens there
	TroubleSilent              // nobody answers in time
	TroublePlaintext           // it does not speak TLS, and is called over it
	TroubleEncrypted           // it closes the connection: mostly one that wants TLS and is called without
	TroubleAuthority           // nobody that is trusted vouches for its certificate
	TroubleName                // its certificate is for another name
	TroubleCertificate         // it wants a certificate from us
	TroubleMaster              // the sentinels know no such master
	TroubleSentinel            // it is no sentinel, and is called as one
	TroubleLoading             // it is reading its data from the disk
	TroubleDown                // its cluster is not complete
)

// Diagnose tells what an error of New or NewReader over cfg is about. It may call once more to find out: a server
// that does not speak TLS says nothing to who does.
func Diagnose(ctx context.Context, cfg *Config, err error) Trouble {
	trouble := troubleOf(err)
	if trouble == TroubleEncrypted && cfg.TLS != nil {
		return TroubleCertificate // TLS 1.3 tells a client late that its certificate was not good enough, or it hears only a reset
	}

	if trouble == TroubleSilent && cfg.TLS != nil && slices.ContainsFunc(cfg.Addresses, func(a string) bool { return isPlain(ctx, a) }) {
		return TroublePlaintext
	}

	return trouble
}

// isPlain reports whether a Redis at address answers without TLS.
func isPlain(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, DefaultDialTimeout)
	defer cancel()

	var dialer net.Dialer

	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()

	deadline, _ := ctx.Deadline()
	answer := make([]byte, 1)

	if conn.SetDeadline(deadline) != nil {
		return false
	}

	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}

	_, err = conn.Read(answer)

	return err == nil && (answer[0] == '+' || answer[0] == '-')
}

// troubleOf tells what an error says by itself.
func troubleOf(err error) Trouble {
	text := err.Error()

	if word, ok := refusedWith(err); ok {
		switch word {
		case "WRONGPASS":
			return TroublePassword
		case "NOAUTH":
			return TroubleNoPassword
		case "NOPERM":
			return TroubleRights
		case "LOADING":
			return TroubleLoading
		case "CLUSTERDOWN":
			return TroubleDown
		}
	}

	var (
		authority *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		network   net.Error
	)

	switch {
	case errors.As(err, &record):
		return TroublePlaintext
	case errors.As(err, &authority):
		for _, part := range []string{"is valid for", "not valid for any names", "IP SANs"} {
			if strings.Contains(text, part) {
				return TroubleName
			}
		}

		return TroubleAuthority
	case errors.As(err, &alert) || strings.Contains(text, "tls: certificate required") || strings.Contains(text, "remote error: tls"):
		return TroubleCertificate
	case strings.Contains(text, "connection refused"):
		return TroubleNobody
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout():
		return TroubleSilent
	case strings.Contains(text, "EOF") || strings.Contains(text, "connection reset"):
		return TroubleEncrypted
	case strings.Contains(text, "No such master"):
		return TroubleMaster
	case strings.Contains(text, "unknown command 'SENTINEL'"):
		return TroubleSentinel
	default:
		return TroubleOther
	}
}

// refusedWith returns the word with which Redis refused, such as WRONGPASS, if it is Redis's own answer that err is about.
func refusedWith(err error) (word string, ok bool) {
	e, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok {
		return "", false
	}

	word, _, _ = strings.Cut(e.Error(), " ")

	return word, true
}
