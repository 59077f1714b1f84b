package table

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// secret is what the keys of a rule are hashed by, drawn for each: nobody can choose keys that collide.
type secret struct {
	seed              maphash.Seed // of keys that are not short
	one, other, third uint64       // of short ones
}

// sought is a key that is looked up, made once for all tables of its rule: its
// hash, and the two words that stand in a name for it.
type sought struct {
	hash, low, high uint64
}

func newSecret() secret {
	s := secret{seed: maphash.MakeSeed()}
	s.one, s.other, s.third = maphash.String(s.seed, "one"), maphash.String(s.seed, "other"), maphash.String(s.seed, "third")|1

	return s
}

// seek reads and hashes a key. The two words of a short one are its bytes and
// its length, read by loads that overlap; its hash is their product, folded twice, as Go's own is where a
// processor has no instruction for one. So it takes no call, and to compare it no more reading. (Folded
// once, keys that are alike crowd together for one secret in some dozens.)
func (s *secret) seek(key string) sought {
	size := uint(len(key))
	if size >= shortKey {
		return sought{hash: maphash.String(s.seed, key), low: uint64(size), high: long << 56}
	}

	var low uint64

	high := uint64(size) << 56
	b := unsafe.Slice(unsafe.StringData(key), size) //nolint:gosec // it is only read

	switch {
	case size >= 8:
		low = binary.LittleEndian.Uint64(b)
		high |= binary.LittleEndian.Uint64(b[size-8:]) >> 8 >> (8 * (15 - size) & 63) // by 64 if nothing is left
	case size >= 4:
		low = uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[size-4:]))<<(8*(size-4)&63)
	case size > 0:
		low = uint64(b[0]) | uint64(b[size/2])<<(8*(size/2)&63) | uint64(b[size-1])<<(8*(size-1)&63)
	}

	return sought{hash: fold(fold(low^s.one, high^s.other), s.third), low: low, high: high}
}

// fold returns the halves of a product, one upon the other.
func fold(a, b uint64) uint64 {
	upper, lower := bits.Mul64(a, b)

	return upper ^ lower
}
