package rpc

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

func trusting(tb testing.TB, keys ...byte) trust {
	tb.Helper()

	public := make([]ed25519.PublicKey, len(keys))
	for i, n := range keys {
		public[i] = publicKey(n)
	}

	got, err := newTrust(public, len(keys) == 0)
	if err != nil {
		tb.Fatal(err)
	}

	return got
}

func seal(tb testing.TB, s *Signer, context string) *leasewayv1.Envelope {
	tb.Helper()

	env, err := s.seal(context, fine())
	if err != nil {
		tb.Fatal(err)
	}

	return env
}

func TestOneChangedBitIsSeen(t *testing.T) {
	trust := trusting(t, 1)
	env := seal(t, signer(t, 1), answerContext)

	if refusal := trust.open(answerContext, env, &leasewayv1.Answer{}); refusal != nil {
		t.Fatal(refusal.err)
	}

	for _, part := range [][]byte{env.GetBody(), env.GetSignature(), env.GetKeyId()} {
		for i := range part {
			for bit := range 8 {
				part[i] ^= 1 << bit

				if trust.open(answerContext, env, &leasewayv1.Answer{}) == nil {
					t.Fatalf("bit %d of byte %d changed and believed", bit, i)
				}

				part[i] ^= 1 << bit
			}
		}
	}
}

func TestWhatIsNotBelieved(t *testing.T) {
	trust := trusting(t, 1, 2)

	disguised := seal(t, signer(t, 3), answerContext)
	disguised.KeyId = keyID(publicKey(1))

	garbage := seal(t, signer(t, 1), answerContext)
	garbage.Body = []byte{0xff}
	garbage.Signature = ed25519.Sign(privateKey(1), append([]byte(answerContext), 0xff))

	for name, c := range map[string]struct {
		env  *leasewayv1.Envelope
		want Cause
	}{
		"nothing":                      {nil, CauseMalformed},
		"unsigned":                     {seal(t, nil, answerContext), CauseSignature},
		"a stranger's":                 {seal(t, signer(t, 3), answerContext), CauseKey},
		"a stranger's under our name":  {disguised, CauseSignature},
		"a signature on rules":         {seal(t, signer(t, 1), rulesContext), CauseSignature},
		"signed, and no message":       {garbage, CauseMalformed},
		"the second key is not signed": {seal(t, signer(t, 3, 1), answerContext), CauseKey},
	} {
		if refusal := trust.open(answerContext, c.env, &leasewayv1.Answer{}); refusal == nil || refusal.cause != c.want {
			t.Errorf("%s: %+v, want cause %v", name, refusal, c.want)
		}
	}

	if refusal := trusting(t).open(answerContext, seal(t, nil, answerContext), &leasewayv1.Answer{}); refusal != nil {
		t.Errorf("unsigned, where that is allowed: %v", refusal.err)
	}
}

// A key is exchanged in three steps, and at each of them everybody believes everybody.
func TestRotationOverlaps(t *testing.T) {
	for _, step := range []struct{ before, after []byte }{ // keys of the coordinators, first signs; keys that holders pin
		{[]byte{1}, []byte{1}},
		{[]byte{1, 2}, []byte{1, 2}},
		{[]byte{2, 1}, []byte{1, 2}},
		{[]byte{2}, []byte{2}},
	} {
		env := seal(t, signer(t, step.before...), answerContext)
		if refusal := trusting(t, step.after...).open(answerContext, env, &leasewayv1.Answer{}); refusal != nil {
			t.Errorf("signed with %v, pinned %v: %v", step.before, step.after, refusal.err)
		}
	}

	if got := signer(t, 2, 1).PublicKeys(); len(got) != 2 || !got[0].Equal(publicKey(2)) || !got[1].Equal(publicKey(1)) {
		t.Errorf("announced %v: want the signing key first, and all", got)
	}
}

func TestKeyFilesGoRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signing.pem")

	public, err := GenerateKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v; want 0600", info.Mode(), err)
	}

	var log bytes.Buffer

	s, err := LoadSigner(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}

	if !s.PublicKeys()[0].Equal(public) || log.Len() > 0 {
		t.Errorf("public key %x, want %x; log %q", s.PublicKeys()[0], public, log.String())
	}

	if _, err := GenerateKeyFile(path); err == nil {
		t.Error("a key was written over")
	}

	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}

	if _, err := LoadSigner(path, slog.New(slog.NewTextHandler(&log, nil))); err != nil || !strings.Contains(log.String(), "chmod 600") {
		t.Errorf("a file that the group reads: error %v, log %q", err, log.String())
	}
}

func TestAKeyFileMayHoldSeveralKeys(t *testing.T) {
	var file bytes.Buffer

	for _, n := range []byte{2, 1} {
		file.WriteString("# a note between the blocks\n")

		if err := pem.Encode(&file, &pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8(t, privateKey(n))}); err != nil {
			t.Fatal(err)
		}
	}

	path := filepath.Join(t.TempDir(), "keys.pem")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}

	s, err := LoadSigner(path, nil)
	if err != nil {
		t.Fatal(err)
	}

	if keys := s.PublicKeys(); len(keys) != 2 || !keys[0].Equal(publicKey(2)) || !bytes.Equal(s.id, keyID(publicKey(2))) {
		t.Errorf("keys %x, signing with %x; want the first of two", keys, s.id)
	}
}

func pkcs8(tb testing.TB, key any) []byte {
	tb.Helper()

	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}

	return der
}

func TestBadKeyFilesSayWhatIsWrong(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(t.TempDir(), "keys.pem")

	for want, text := range map[string][]byte{
		"no PEM block":    []byte("hello"),
		"another kind":    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8(t, other)}),
		"PEM block 1 is":  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte{1}}),
		"PEM block 1: ":   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}),
		"larger than":     bytes.Repeat([]byte{'\n'}, maxSecretFile+1),
		"keys.pem: it ha": nil,
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}

		if _, err := LoadSigner(path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}

	if _, err := LoadSigner(filepath.Join(t.TempDir(), "missing"), nil); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("a missing file: %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || os.IsNotExist(err) {
			return err
		}

		err = inner.Unwrap()
	}
}

func TestPublicKeysInText(t *testing.T) {
	der, err := x509.MarshalPKIXPublicKey(publicKey(3))
	if err != nil {
		t.Fatal(err)
	}

	block := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	a, b := FormatPublicKey(publicKey(1)), FormatPublicKey(publicKey(2))

	if !strings.HasPrefix(a, "ed25519:") {
		t.Errorf("a public key is written %q", a)
	}

	for text, want := range map[string][]byte{
		a:                         {1},
		a + "," + b:               {1, 2},
		"\n" + a + "\n" + b + " ": {1, 2},
		block:                     {3},
		a + "\n" + block + b:      {1, 3, 2},
	} {
		keys, err := ParsePublicKeys(text)
		if err != nil || len(keys) != len(want) {
			t.Errorf("%q: %d keys, error %v", text, len(keys), err)

			continue
		}

		for i, n := range want {
			if !keys[i].Equal(publicKey(n)) {
				t.Errorf("%q: key %d is not number %d", text, i, n)
			}
		}
	}

	for _, text := range []string{
		"", " ,", "ed25519:", "ed25519:AAAA", strings.TrimPrefix(a, "ed25519:"), "rsa:" + a, a + " x",
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8(t, privateKey(1))})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte{1}})),
		"-----BEGIN PUBLIC KEY-----",
	} {
		if keys, err := ParsePublicKeys(text); err == nil {
			t.Errorf("%q was taken for %d keys", text, len(keys))
		}
	}
}

func FuzzParsePublicKeys(f *testing.F) {
	f.Add(FormatPublicKey(publicKey(1)))
	f.Add("-----BEGIN PUBLIC KEY-----\n\n-----END PUBLIC KEY-----")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := ParsePublicKeys(text)
		if (err == nil) != (len(keys) > 0) {
			t.Fatalf("%d keys and error %v", len(keys), err)
		}

		for _, key := range keys {
			again, err := ParsePublicKeys(FormatPublicKey(key))
			if err != nil || len(again) != 1 || !again[0].Equal(key) {
				t.Fatalf("key %x became %x, error %v", key, again, err)
			}
		}
	})
}

func TestTokens(t *testing.T) {
	const a, b = "0123456789abcdef", "fedcba9876543210-"

	tokens, err := ParseTokens([]byte("# two\n\n" + a + "\r\n  " + b + "\n"))
	if err != nil {
		t.Fatal(err)
	}

	for token, want := range map[string]bool{a: true, b: true, "": false, a + "x": false, a[:15]: false, "# two": false, a + "\n" + b: false} {
		if got := tokens.Allows(token); got != want {
			t.Errorf("%q allowed: %v", token, got)
		}
	}

	for want, text := range map[string]string{
		"no token": "# none\n", "line 2": a + "\nshort", "line 1": strings.Repeat("t", maxToken+1),
	} {
		if _, err := ParseTokens([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}

		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		if _, err := LoadTokens(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v does not say %q and the file", err, want)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	s, msg := signer(b, 1), fine()

	for b.Loop() {
		if _, err := s.seal(answerContext, msg); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	trust, env := trusting(b, 1), seal(b, signer(b, 1), answerContext)

	for b.Loop() {
		if refusal := trust.open(answerContext, env, &leasewayv1.Answer{}); refusal != nil {
			b.Fatal(refusal.err)
		}
	}
}
