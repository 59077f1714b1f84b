package rpc

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
)

const (
	privateBlock = "PRIVATE KEY" // PKCS #8
	publicBlock  = "PUBLIC KEY"  // PKIX

	maxSecretFile = 1 << 20 // bytes; a key is 119, a token 64
	keyMode       = 0o600
)

// LoadSigner reads a signing key file: one or more PEM blocks of PKCS #8 Ed25519
// private keys, of which the first signs. A file that others may read is used,
// with a warning to logger.
func LoadSigner(path string, logger *slog.Logger) (*Signer, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("rpc: signing key file: %w", err)
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("rpc: signing key file: %w", err)
	}

	if mode := info.Mode().Perm(); mode&^keyMode != 0 && logger != nil {
		logger.Warn("others than its owner may use the signing key file; run chmod 600 on it",
			"path", path, "mode", fmt.Sprintf("%04o", mode))
	}

	text, err := readSecret(f)
	if err != nil {
		return nil, fmt.Errorf("rpc: signing key file %s: %w", path, err)
	}

	keys, err := parsePrivateKeys(text)
	if err != nil {
		return nil, fmt.Errorf("rpc: signing key file %s: %w", path, err)
	}

	return NewSigner(keys...)
}

// GenerateKeyFile writes a new signing key to path, which must not exist, with
// mode 0600, and returns its public half.
func GenerateKeyFile(path string) (ed25519.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("rpc: generate a signing key: %w", err)
	}

	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("rpc: generate a signing key: %w", err)
	}

	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, keyMode) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("rpc: write the signing key: %w", err)
	}

	err = pem.Encode(f, &pem.Block{Type: privateBlock, Bytes: der})
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		// Half a key would be an error at every start.
		return nil, fmt.Errorf("rpc: write the signing key: %w", errors.Join(err, os.Remove(path)))
	}

	return public, nil
}

// readSecret reads a file of keys or tokens, unless it is surely something else.
func readSecret(f io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err == nil && len(text) > maxSecretFile {
		err = fmt.Errorf("it is larger than %d bytes (it should hold a few lines)", maxSecretFile)
	}

	return text, err
}

func parsePrivateKeys(text []byte) ([]ed25519.PrivateKey, error) {
	var keys []ed25519.PrivateKey

	for n := 1; ; n++ {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}

		if block.Type != privateBlock {
			return nil, fmt.Errorf("PEM block %d is a %q (a PKCS #8 %q is needed, as openssl genpkey -algorithm ed25519 writes it)",
				n, block.Type, privateBlock)
		}

		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("PEM block %d: %w", n, err)
		}

		key, ok := parsed.(ed25519.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("PEM block %d is a key of another kind, %T (an Ed25519 key is needed)", n, parsed)
		}

		keys = append(keys, key)
	}

	if len(keys) == 0 {
		return nil, errors.New("it has no PEM block (write a PKCS #8 Ed25519 private key into it)")
	}

	return keys, nil
}
