package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
)

// A holder whose settings no coordinator will ever go with would allow everything: it must not start.
func TestHolderThatFitsNoCoordinatorIsRefused(t *testing.T) {
	rules := file(t, thingsRules)
	tokens := file(t, secret+"\n")
	open, closed, other := start(t, "--rules", rules), start(t, "--rules", rules, "--token-file", tokens), start(t)
	holder := start(t, "--coordinator", open.GRPC, "--coordinator-key", open.Key)

	authority := newAuthority(t)
	certFile, keyFile, _ := authority.issue(t, t.TempDir(), "server")
	secure := start(t, "--tls-cert", certFile, "--tls-key", keyFile)
	ca := authority.file(t)
	closedTo := start(t, "--tls-cert", certFile, "--tls-key", keyFile, "--tls-client-ca", ca)
	strangerCert, strangerKey, _ := newAuthority(t).issue(t, t.TempDir(), "stranger")

	for name, row := range map[string]struct {
		args []string
		want string // the flag to change
	}{
		"no token":       {[]string{"--coordinator", closed.GRPC}, "add --coordinator-token-file"},
		"another token":  {[]string{"--coordinator", closed.GRPC, "--coordinator-token-file", file(t, strings.Repeat("x", 32))}, "--coordinator-token-file"},
		"another key":    {[]string{"--coordinator", open.GRPC, "--coordinator-key", other.Key}, "--coordinator-key"},
		"HTTP":           {[]string{"--coordinator", open.HTTP}, "8081"},
		"HTTP over TLS":  {[]string{"--coordinator", "grpcs://" + secure.HTTP, "--coordinator-ca", ca}, "8081"},
		"TLS to none":    {[]string{"--coordinator", "grpcs://" + open.GRPC, "--coordinator-ca", ca}, "grpc://"},
		"TLS":            {[]string{"--coordinator", secure.GRPC}, "grpcs://"},
		"another CA":     {[]string{"--coordinator", "grpcs://" + secure.GRPC}, "--coordinator-ca"},
		"another name":   {[]string{"--coordinator", "grpcs://localhost:" + port(t, secure.GRPC), "--coordinator-ca", ca}, "call it by one of them"},
		"no certificate": {[]string{"--coordinator", "grpcs://" + closedTo.GRPC, "--coordinator-ca", ca}, "--tls-cert"},
		"a stranger's": {[]string{
			"--coordinator", "grpcs://" + closedTo.GRPC, "--coordinator-ca", ca, "--tls-cert", strangerCert, "--tls-key", strangerKey,
		}, "--tls-client-ca"},
		"a holder":       {[]string{"--coordinator", holder.GRPC}, "without --coordinator"},
		"and an absence": {[]string{"--coordinator", "127.0.0.1:1," + open.GRPC, "--coordinator-key", other.Key}, "--coordinator-key"},
	} {
		var wrong *UsageError
		if err := refusal(t, row.args...); !errors.As(err, &wrong) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want a usage error with %q", name, err, row.want)
		}
	}
}

// refusal is how a server ends that is to be refused at its start. One that heard of no coordinator in time starts all
// the same: it is ended, and another tried.
func refusal(t *testing.T, args ...string) error {
	t.Helper()

	args = append([]string{"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir", dataDir(t)}, args...)

	for range 10 {
		config, err := load(args, nil)
		must(t, err)

		ctx, stop := context.WithCancel(t.Context())
		log, ended := &buffer{}, make(chan error, 1)

		go func() { ended <- Run(ctx, config, log) }()

		eventually(t, "it is refused, or listens", func() bool { return len(ended) == 1 || strings.Contains(log.String(), "listening") })
		stop()

		if err := <-ended; err != nil {
			return err
		}
	}

	return nil
}

func port(t *testing.T, address string) string {
	t.Helper()

	_, port, err := net.SplitHostPort(address)
	must(t, err)

	return port
}

// One coordinator that answers is enough: the others may be on their way from one token to the next.
func TestHolderStartsWithOneCoordinatorThatFits(t *testing.T) {
	rules := file(t, thingsRules)
	good := start(t, "--rules", rules)
	other := start(t, "--token-file", file(t, secret+"\n"))
	holder := start(t, "--coordinator", good.GRPC+","+other.GRPC)

	eventually(t, "it leases", func() bool { return holder.admitted(t, 1, things("ada", 1)) == 1 && holder.limit(t) == "100" })
}

func TestHolderOfItselfIsRefused(t *testing.T) {
	for _, row := range []struct {
		coordinator, listen string
		refused             bool
	}{
		{"127.0.0.1:8081", "127.0.0.1:8081", true},
		{"grpc://localhost:8081", "127.0.0.1:8081", true},
		{"127.0.0.1:8081", "localhost:8081", true},
		{"127.0.0.1:8081", ":8081", true},
		{"[::1]:8081", "[::]:8081", true},
		{"127.0.0.1:8082", "127.0.0.1:8081", false},
		{"127.0.0.2:8081", "127.0.0.1:8081", false},
		{"coordinator:8081", "0.0.0.0:8081", false},
	} {
		args := []string{"--insecure", "--coordinator", row.coordinator, "--grpc-listen", row.listen}

		_, err := load(args, nil)
		if refused := err != nil && strings.Contains(err.Error(), "this server's own --grpc-listen"); refused != row.refused {
			t.Errorf("%q: got %v", args, err)
		}
	}
}
