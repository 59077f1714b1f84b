package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/rpc"
)

// maxTokens is the size of the largest token file, in bytes.
const maxTokens = 1 << 20

// tokenFile is who may call: the tokens of a file, one a line, with # comments. A file that is replaced takes effect at
// once, so that a token can be added, moved to, and taken out, without a restart.
type tokenFile struct {
	path   string
	log    *slog.Logger
	tokens atomic.Pointer[rpc.Tokens]
	text   []byte // as last read
}

// open reads the tokens for the first time. The error is a *UsageError.
func (f *tokenFile) open() error {
	text, err := readBounded(f.path, maxTokens)
	if err == nil {
		err = f.load(text)
	}

	if err != nil {
		return unusable("--token-file", err)
	}

	const othersRead = 0o044
	if info, err := os.Stat(f.path); err == nil && ownersKnown && info.Mode().Perm()&othersRead != 0 {
		f.log.Warn("other users can read the tokens: run chmod 600 on the file",
			"path", f.path, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}

	return nil
}

// refresh reads them again; a bad file leaves the last good tokens valid. Only the follower calls it.
func (f *tokenFile) refresh() {
	text, err := readBounded(f.path, maxTokens)
	if err == nil && bytes.Equal(text, f.text) {
		return
	}

	if err == nil {
		err = f.load(text)
	}

	if err != nil {
		f.log.Error("the changed tokens are refused: the last good ones stay valid", "path", f.path, "error", err)

		return
	}

	f.log.Info("tokens in force", "path", f.path)
}

func (f *tokenFile) load(text []byte) error {
	f.text = text

	tokens, err := rpc.ParseTokens(text)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}

	f.tokens.Store(tokens)

	return nil
}

// Allows reports whether token is one of those that the file has now; the time it takes tells nothing about them.
func (f *tokenFile) Allows(token string) bool { return f.tokens.Load().Allows(token) }

// bearer returns the token of an Authorization header; "" for none.
func bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}

	return strings.TrimSpace(token)
}

// gate lets only callers with a valid token through, or those without while they are let in.
type gate struct {
	tokens admitter                 // nil lets everyone through
	bare   func(addr netip.Addr)    // hears who was let in without; may be nil
	reads  func(*http.Request) bool // lets people see what the server does; may be nil
}

// forReaders is next behind the gate, or for people who may see what concerns all rules.
func (g gate) forReaders(next http.Handler) http.Handler {
	guarded := g.before(next)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.reads != nil && g.reads(r) {
			next.ServeHTTP(w, r)

			return
		}

		guarded.ServeHTTP(w, r)
	})
}

// admits reports whether a caller with this token is let through. A wrong one counts as none.
func (g gate) admits(r *http.Request, token string) bool {
	switch {
	case g.tokens == nil || token != "" && g.tokens.Allows(token):
		return true
	case !g.tokens.Allows(""):
		return false
	}

	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && g.bare != nil {
		g.bare(from.Addr().Unmap())
	}

	return true
}

// before is next behind the gate.
func (g gate) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.admits(r, bearer(r.Header.Get("Authorization"))) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="leaseway"`)
			writeProblem(w, http.StatusUnauthorized, "send the header Authorization: Bearer TOKEN with one of the server's tokens")

			return
		}

		next.ServeHTTP(w, r)
	})
}
