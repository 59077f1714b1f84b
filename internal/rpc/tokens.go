package rpc

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
)

const (
	minToken = 16  // bytes; less can be guessed
	maxToken = 512 // bytes
)

// Tokens are the bearer tokens that a server accepts, kept as hashes.
type Tokens struct{ hashes [][sha256.Size]byte }

// LoadTokens reads a token file; see ParseTokens.
func LoadTokens(path string) (*Tokens, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("rpc: token file: %w", err)
	}
	defer f.Close()

	text, err := readSecret(f)
	if err != nil {
		return nil, fmt.Errorf("rpc: token file %s: %w", path, err)
	}

	tokens, err := ParseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("rpc: token file %s: %w", path, err)
	}

	return tokens, nil
}

// ParseTokens reads one token a line, of 16 to 512 bytes; empty lines and those
// that begin with # are left out. Several tokens let one be exchanged without a gap.
func ParseTokens(text []byte) (*Tokens, error) {
	t := &Tokens{}
	n := 0

	for line := range bytes.Lines(text) {
		n++

		token := bytes.TrimSpace(line)
		if len(token) == 0 || token[0] == '#' {
			continue
		}

		if len(token) < minToken || len(token) > maxToken {
			return nil, fmt.Errorf("line %d: the token has %d bytes (use %d to %d, such as openssl rand -hex 32)",
				n, len(token), minToken, maxToken)
		}

		t.hashes = append(t.hashes, sha256.Sum256(token))
	}

	if len(t.hashes) == 0 {
		return nil, errors.New("it has no token (write one a line, such as openssl rand -hex 32)")
	}

	return t, nil
}

// Allows reports whether token is one of them. How long it takes says nothing
// about how much of a token was right.
func (t *Tokens) Allows(token string) bool {
	hash := sha256.Sum256([]byte(token))
	found := 0

	for i := range t.hashes {
		found |= subtle.ConstantTimeCompare(hash[:], t.hashes[i][:])
	}

	return found == 1
}
