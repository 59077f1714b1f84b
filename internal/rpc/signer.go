package rpc

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

// The contexts of a signature: with them in front, an answer never passes for rules.
const (
	answerContext = "leaseway.v1.answer\x00"
	rulesContext  = "leaseway.v1.rules\x00"
)

// keyIDSize is how many bytes of a public key's SHA-256 name it.
const keyIDSize = 8

// Signer signs answers and rules. The first of its keys signs; the others are
// those that holders should pin besides it, so that a key can be exchanged
// without a moment in which somebody refuses the other: add the new one last
// everywhere, pin it at the holders, then put it first.
type Signer struct {
	key  ed25519.PrivateKey
	id   []byte
	keys []ed25519.PublicKey
}

// NewSigner returns a Signer of one or more keys, in order of use.
func NewSigner(keys ...ed25519.PrivateKey) (*Signer, error) {
	if len(keys) == 0 {
		return nil, errors.New("rpc: no signing key (generate one with GenerateKeyFile)")
	}

	s := &Signer{key: keys[0]}

	for i, key := range keys {
		public, ok := key.Public().(ed25519.PublicKey)
		if len(key) != ed25519.PrivateKeySize || !ok {
			return nil, fmt.Errorf("rpc: signing key %d is no Ed25519 private key: it has %d bytes", i+1, len(key))
		}

		s.keys = append(s.keys, public)
	}

	s.id = keyID(s.keys[0])

	return s, nil
}

// PublicKeys returns the public halves of all keys, the signing one first.
func (s *Signer) PublicKeys() []ed25519.PublicKey { return s.keys }

// seal puts a message into an envelope and signs it; a nil Signer does not sign.
func (s *Signer) seal(context string, msg proto.Message) (*leasewayv1.Envelope, error) {
	signed, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte(context), msg)
	if err != nil {
		return nil, fmt.Errorf("rpc: an answer cannot be written: %w", err)
	}

	env := &leasewayv1.Envelope{Body: signed[len(context):]}
	if s != nil {
		env.KeyId, env.Signature = s.id, ed25519.Sign(s.key, signed)
	}

	return env, nil
}

// keyID returns what names a key in an envelope.
func keyID(key ed25519.PublicKey) []byte {
	sum := sha256.Sum256(key)

	return sum[:keyIDSize]
}
