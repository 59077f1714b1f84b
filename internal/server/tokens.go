package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
)

// maxTokens is the size of the largest token file, in bytes.
const maxTokens = 1 << 20

// tokenFile is who may call: the tokens of a file, one a line, with # comments. A file that is replaced takes effect at
// once, so that a token can be added, moved to, and taken out, without a restart.
type tokenFile struct {
	path   string
	log    *slog.Logger
	hashes atomic.Pointer[[][sha256.Size]byte]
	text   []byte // as last read
}

// open reads the tokens for the first time. The error is a *UsageError.
func (f *tokenFile) open() error {
	text, err := readBounded(f.path, maxTokens)
	if err != nil {
		return usage("--token-file: %v", err)
	}

	if err := f.load(text); err != nil {
		return usage("--token-file: %v", err)
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

	f.log.Info("tokens in force", "path", f.path, "tokens", len(*f.hashes.Load()))
}

func (f *tokenFile) load(text []byte) error {
	f.text = text

	list, err := parseTokens(f.path, text)
	if err != nil {
		return err
	}

	hashes := make([][sha256.Size]byte, len(list))
	for i, token := range list {
		hashes[i] = sha256.Sum256([]byte(token))
	}

	f.hashes.Store(&hashes)

	return nil
}

// parseTokens returns the tokens of a file; it never repeats one in an error.
func parseTokens(path string, text []byte) ([]string, error) {
	var list []string

	number := 0
	for line := range strings.Lines(string(text)) {
		number++

		token := strings.TrimSpace(line)
		if token == "" || strings.HasPrefix(token, "#") {
			continue
		}

		// What a header cannot carry could never be shown.
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("%s:%d: a token is printable ASCII without spaces; a comment begins with #", path, number)
		}

		list = append(list, token)
	}

	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no token: write one a line, such as the output of: openssl rand -hex 32", path)
	}

	return list, nil
}

// valid compares hashes, all of them and in constant time, so that nothing can be learned from how long it takes.
func (f *tokenFile) valid(token string) bool {
	hash, found := sha256.Sum256([]byte(token)), 0

	for _, known := range *f.hashes.Load() {
		found |= subtle.ConstantTimeCompare(hash[:], known[:])
	}

	return found == 1
}

// bearer returns the token of an Authorization header; "" for none.
func bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}

	return strings.TrimSpace(token)
}

// guard lets only callers with a valid token through to next. A nil tokenFile lets everyone through.
func (f *tokenFile) guard(next http.Handler) http.Handler {
	if f == nil {
		return next
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.valid(bearer(r.Header.Get("Authorization"))) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="leaseway"`)
			writeProblem(w, http.StatusUnauthorized, "send the header Authorization: Bearer TOKEN with one of the server's tokens")

			return
		}

		next.ServeHTTP(w, r)
	})
}
