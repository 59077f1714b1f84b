package rpc

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// keyPrefix begins a public key in its one-line form.
const keyPrefix = "ed25519:"

// FormatPublicKey returns a public key as configuration has it: ed25519:BASE64.
func FormatPublicKey(key ed25519.PublicKey) string {
	return keyPrefix + base64.StdEncoding.EncodeToString(key)
}

// ParsePublicKeys reads one or more public keys: ed25519:BASE64, separated by
// commas or white space, PEM blocks of PKIX keys, or both. The error names the one that is none.
func ParsePublicKeys(text string) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey

	rest := []byte(text)

	for {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}

		key, err := parsePublicBlock(block)
		if err != nil {
			return nil, err
		}

		before, _, _ := strings.Cut(string(rest[:len(rest)-len(after)]), "-----BEGIN")

		lines, err := parsePublicLines(before)
		if err != nil {
			return nil, err
		}

		keys = append(append(keys, lines...), key)
		rest = after
	}

	lines, err := parsePublicLines(string(rest))
	if err != nil {
		return nil, err
	}

	if keys = append(keys, lines...); len(keys) == 0 {
		return nil, errors.New("no public key (write ed25519:BASE64 or a PEM block)")
	}

	return keys, nil
}

func parsePublicLines(text string) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey

	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
		encoded, ok := strings.CutPrefix(word, keyPrefix)

		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("%.60q is no public key (write ed25519: and 44 characters of base64, or a PEM block)", word)
		}

		keys = append(keys, key)
	}

	return keys, nil
}

func parsePublicBlock(block *pem.Block) (ed25519.PublicKey, error) {
	if block.Type != publicBlock {
		return nil, fmt.Errorf("a PEM block is a %q (a %q is needed; holders never get the private one)", block.Type, publicBlock)
	}

	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("a PEM block: %w", err)
	}

	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("a PEM block is a key of another kind, %T (an Ed25519 key is needed)", parsed)
	}

	return key, nil
}
