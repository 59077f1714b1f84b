package rpc

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

// trust is the keys that a holder believes.
type trust struct {
	keys map[string]ed25519.PublicKey // by key id; empty: unsigned is believed
}

// newTrust pins keys. Without any, unsigned must be what the caller wants.
func newTrust(keys []ed25519.PublicKey, unsigned bool) (trust, error) {
	if len(keys) == 0 && !unsigned {
		return trust{}, errors.New("rpc: no coordinator's public key is pinned, " +
			"and TLS or not, only signed limits are believed from other machines " +
			"(pin the key that the coordinator logs at its start with leaseway.WithCoordinatorKeys or --coordinator-key, " +
			"or believe whatever comes with leaseway.WithInsecure or --insecure)")
	}

	t := trust{keys: make(map[string]ed25519.PublicKey, len(keys))}

	for i, key := range keys {
		if len(key) != ed25519.PublicKeySize {
			return trust{}, fmt.Errorf("rpc: public key %d has %d bytes, an Ed25519 public key has %d",
				i+1, len(key), ed25519.PublicKeySize)
		}

		t.keys[string(keyID(key))] = key
	}

	return t, nil
}

// open checks an envelope's signature and reads its body into msg. A refusal says why not to believe it.
func (t trust) open(context string, env *leasewayv1.Envelope, msg proto.Message) *refusal {
	if env == nil {
		return &refusal{CauseMalformed, errors.New("the envelope is missing")}
	}

	sealed := envelope{keyID: env.GetKeyId(), signature: env.GetSignature()}
	if refusal := t.verify(append([]byte(context), env.GetBody()...), sealed); refusal != nil {
		return refusal
	}

	if err := proto.Unmarshal(env.GetBody(), msg); err != nil {
		return &refusal{CauseMalformed, err}
	}

	return nil
}

// verify checks the signature of an envelope over signed, its context and its body.
func (t trust) verify(signed []byte, env envelope) *refusal {
	if len(t.keys) == 0 {
		return nil
	}

	key, known := t.keys[string(env.keyID)]

	switch {
	case len(env.signature) == 0:
		return &refusal{CauseSignature, errors.New("it is not signed (start the coordinator with a signing key)")}
	case !known:
		return &refusal{CauseKey, fmt.Errorf("it is signed by key %x, which is not pinned (pin the coordinator's public key)",
			shortID(env.keyID))}
	case !ed25519.Verify(key, signed, env.signature):
		return &refusal{CauseSignature, errors.New("its signature is wrong")}
	default:
		return nil
	}
}

// shortID cuts what a peer calls a key id to what fits a log line.
func shortID(id []byte) []byte { return id[:min(len(id), 2*keyIDSize)] }
