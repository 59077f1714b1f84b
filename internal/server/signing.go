package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/leaseway/leaseway/internal/rpc"
)

// signingKey is the file of a coordinator's own key, in its state directory.
const signingKey = "signing.key"

// openSigner reads the configured signing key, or the one in the data directory, which it makes the first time. Several
// coordinators must share one file; with the memory store there is one coordinator, and its own key will do.
func openSigner(config *Config, log *slog.Logger) (*rpc.Signer, error) {
	path := cmp.Or(config.SigningKeyFile, filepath.Join(config.stateDir(), signingKey))

	if config.SigningKeyFile == "" {
		if err := makeKey(path); err != nil {
			return nil, fmt.Errorf("%w (name a directory that this user can write to by --data-dir, or a key by --signing-key-file)", err)
		}
	}

	signer, err := rpc.LoadSigner(path, log)
	if err != nil && config.SigningKeyFile != "" {
		return nil, unusable("--signing-key-file", err)
	}

	if err != nil {
		return nil, err
	}

	keys := signer.PublicKeys()
	texts := make([]string, len(keys))

	for i, key := range keys {
		texts[i] = rpc.FormatPublicKey(key)
	}

	log.Info("answers are signed; give the public key to holders with --coordinator-key",
		"path", path, "publicKey", strings.Join(texts, ","))

	return signer, nil
}

// makeKey writes a key unless there is one. With the counts in Redis nothing may have made the directory yet.
func makeKey(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}

	if _, err := rpc.GenerateKeyFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}

	return nil
}
