package memory

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// A keyID stands for a (rule, key) in the tables.
type keyID struct{ hi, lo uint64 }

// A seed keys the hash. It is secret and belongs to the data: who does not know
// it cannot choose keys that share a ledger, a shard or a place in a table.
type seed struct{ k0, k1 uint64 }

func randomSeed() seed {
	var b [16]byte

	_, _ = rand.Read(b[:]) // never fails

	return seed{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
}

// hash returns SipHash-2-4-128 of rule and key, each behind its length and
// padded with zeros to whole words: an encoding that no two pairs share.
func (s seed) hash(rule, key string) keyID {
	h := newSip(s)
	n := h.text(rule) + h.text(key)

	return h.sum(uint64(n))
}

// sip is the state of SipHash-2-4 with 128 bits of output (Aumasson and
// Bernstein), over messages of whole words.
type sip struct{ v0, v1, v2, v3 uint64 }

func newSip(s seed) sip {
	return sip{
		v0: s.k0 ^ 0x736f6d6570736575,
		v1: s.k1 ^ 0x646f72616e646f6d ^ 0xee,
		v2: s.k0 ^ 0x6c7967656e657261,
		v3: s.k1 ^ 0x7465646279746573,
	}
}

// text takes in the length and the bytes of t, and returns how many bytes of message that made.
func (h *sip) text(t string) int {
	h.word(uint64(len(t)))

	whole := len(t) &^ 7
	for i := 0; i < whole; i += 8 {
		h.word(word(t[i : i+8]))
	}

	if whole == len(t) {
		return 8 + whole
	}

	var last uint64
	for i := whole; i < len(t); i++ {
		last |= uint64(t[i]) << (8 * (i - whole))
	}

	h.word(last)

	return 16 + whole
}

// word reads eight bytes; the compiler makes one load of it.
func word(t string) uint64 {
	_ = t[7]

	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
		uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
}

func (h *sip) word(m uint64) {
	h.v3 ^= m
	h.round()
	h.round()
	h.v0 ^= m
}

// sum ends a message of n bytes, a multiple of eight.
func (h *sip) sum(n uint64) keyID {
	h.word(n << 56)

	h.v2 ^= 0xee
	h.round()
	h.round()
	h.round()
	h.round()
	id := keyID{hi: h.v0 ^ h.v1 ^ h.v2 ^ h.v3}

	h.v1 ^= 0xdd
	h.round()
	h.round()
	h.round()
	h.round()
	id.lo = h.v0 ^ h.v1 ^ h.v2 ^ h.v3

	return id
}

func (h *sip) round() {
	h.v0 += h.v1
	h.v1 = bits.RotateLeft64(h.v1, 13) ^ h.v0
	h.v0 = bits.RotateLeft64(h.v0, 32)
	h.v2 += h.v3
	h.v3 = bits.RotateLeft64(h.v3, 16) ^ h.v2
	h.v0 += h.v3
	h.v3 = bits.RotateLeft64(h.v3, 21) ^ h.v0
	h.v2 += h.v1
	h.v1 = bits.RotateLeft64(h.v1, 17) ^ h.v2
	h.v2 = bits.RotateLeft64(h.v2, 32)
}
