package server

import (
	"crypto/tls"
	"encoding/pem"
	"testing"
)

// A holder calls by its files as they are now: who vouches for coordinators, what it shows them, its token. All of them are
// exchanged while its coordinator is away.
func TestAHolderFollowsWhatItCallsBy(t *testing.T) {
	const next = "the-token-that-comes-after-it"

	old, renewed := newAuthority(t), newAuthority(t)
	dir, data := t.TempDir(), dataDir(t)
	serverCert, serverKey, _ := old.issue(t, dir, "server")
	holderCert, holderKey, _ := old.issue(t, dir, "holder")
	clients, servers := old.file(t), old.file(t)
	tokens, shown := file(t, secret+"\n"), file(t, secret+"\n")

	args := []string{
		"--rules", file(t, thingsRules), "--data-dir", data, "--token-file", tokens,
		"--tls-cert", serverCert, "--tls-key", serverKey, "--tls-client-ca", clients,
	}
	coordinator := start(t, args...)
	holder := start(t, "--coordinator", "grpcs://"+coordinator.GRPC, "--coordinator-key", coordinator.Key,
		"--coordinator-ca", servers, "--coordinator-token-file", shown, "--tls-cert", holderCert, "--tls-key", holderKey)

	must(t, coordinator.end(t))

	for _, path := range []string{clients, servers} {
		replace(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: renewed.cert.Raw})))
	}

	renewed.issue(t, dir, "server")
	renewed.issue(t, dir, "holder")
	replace(t, tokens, next+"\n")
	replace(t, shown, next+"\n")

	coordinator = start(t, append(args, "--grpc-listen", coordinator.GRPC)...)
	coordinator.token = next

	pair, err := tls.LoadX509KeyPair(holderCert, holderKey)
	must(t, err)

	config := renewed.config()
	config.Certificates = []tls.Certificate{pair}
	coordinator.overTLS(config)

	eventually(t, "the holder watches the rules as the coordinator itself does", func() bool {
		return coordinator.metric(t, "leaseway_coordinator_watchers") == "2"
	})

	// What is no token leaves the last one in use.
	replace(t, shown, "short")
	eventually(t, "a line that says so", func() bool {
		return holder.logged("the changed token is refused: the last good one stays in use", "path") == shown
	})
}
