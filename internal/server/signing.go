package server

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
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
		if _, err := rpc.GenerateKeyFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
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
