package memory

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The published vectors of SipHash-2-4-128 (key 00 01 … 0f, message 00 01 …),
// for the lengths of whole words.
func TestSipHashVectors(t *testing.T) {
	key := seed{0x0706050403020100, 0x0f0e0d0c0b0a0908}

	for length, want := range map[int]string{
		0:  "a3817f04ba25a8e66df67214c7550293",
		8:  "3b62a9ba6258f5610f83e264f31497b4",
		16: "6ee2a4ca67b054bbfd3315bf85230577",
		24: "2d b4 79 ae 78 bd 50 d8 88 2a 8a 17 8a 61 32 ad",
		48: "f7 e5 ae f5 49 f7 82 cf 37 90 55 a6 08 26 9b 16",
	} {
		h := newSip(key)
		for i := 0; i < length; i += 8 {
			var b [8]byte
			for j := range b {
				b[j] = byte(i + j)
			}

			h.word(word(string(b[:])))
		}

		id := h.sum(uint64(length))
		got := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, id.hi), id.lo)

		if hex.EncodeToString(got) != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%d bytes: %x, want %s", length, got, want)
		}
	}
}

// hash must be sip of the encoding that its comment describes.
func TestHashEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := seed{rapid.Uint64().Draw(t, "k0"), rapid.Uint64().Draw(t, "k1")}
		rule := string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "rule"))
		name := string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "key"))

		var message []byte
		for _, part := range []string{rule, name} {
			message = binary.LittleEndian.AppendUint64(message, uint64(len(part)))
			message = append(message, part...)
			message = append(message, make([]byte, (8-len(part)%8)%8)...)
		}

		h := newSip(key)
		for i := 0; i < len(message); i += 8 {
			h.word(binary.LittleEndian.Uint64(message[i:]))
		}

		if got, want := key.hash(rule, name), h.sum(uint64(len(message))); got != want {
			t.Fatalf("hash(%q, %q) is %x, want %x", rule, name, got, want)
		}
	})
}

func TestSeedsDiffer(t *testing.T) {
	a, b := randomSeed(), randomSeed()
	if a == b || a.hash("r", "k") == b.hash("r", "k") {
		t.Error("two stores hash a key alike")
	}
}
