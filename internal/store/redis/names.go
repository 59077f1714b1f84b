package redis

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/leaseway/leaseway/internal/store"
)

const (
	// slotCount is how many of the cluster's hash slots are used. A node has a
	// share of all slots, and the same share of these.
	slotCount = 1024
	// groupBits says into how many groups the ledgers of a rule are spread. With a
	// million clients each has 15, with thirty million the 450 that a hash may
	// have before Redis gives it more room.
	groupBits = 16
	// nameSize is the bytes that tell ledgers of a group apart.
	nameSize = 12

	clusterSlots = 16384
)

// names are the names of keys in Redis. A tag in braces says which slot a key
// is in, so whatever a client's key has in it cannot.
type names struct {
	prefix string
	tags   [slotCount]string // in braces, one for each slot that is used
}

// A place is where a ledger is kept: the names of its keys, and its own in the group.
type place struct {
	group, held, mark string
	name              string
	slot              uint16 // of those that are used
}

func newNames(prefix string) names {
	n := names{prefix: prefix}

	for found, i := 0, 0; found < slotCount; i++ {
		tag := strconv.FormatInt(int64(i), 36)
		slot := crc16(tag) % clusterSlots

		// Every sixteenth slot is used.
		if slot%(clusterSlots/slotCount) == 0 && n.tags[slot/(clusterSlots/slotCount)] == "" {
			n.tags[slot/(clusterSlots/slotCount)] = "{" + tag + "}"
			found++
		}
	}

	return n
}

// place returns where the ledger of key is. Rule and key, each behind its
// length, are hashed: names have one size, and say nothing of who is limited.
func (n *names) place(key store.Key) place {
	h := sha256.New()

	var length [8]byte

	binary.LittleEndian.PutUint64(length[:], uint64(len(key.Rule)))
	h.Write(length[:])
	h.Write([]byte(key.Rule))
	h.Write([]byte(key.Key))

	var sum [sha256.Size]byte

	h.Sum(sum[:0])

	var group [4 + groupBits/8]byte

	rule := crc32.ChecksumIEEE([]byte(key.Rule))
	binary.LittleEndian.PutUint32(group[:], rule)
	copy(group[4:], sum[:])

	slot := (uint32(binary.LittleEndian.Uint16(sum[:])) ^ rule) % slotCount
	mark := n.prefix + n.tags[slot]
	grouped := mark + base64.RawURLEncoding.EncodeToString(group[:])
	name := sum[len(group)-4 : len(group)-4+nameSize]

	return place{
		group: grouped,
		held:  grouped + "." + base64.RawURLEncoding.EncodeToString(name),
		mark:  mark,
		name:  string(name),
		slot:  uint16(slot),
	}
}

// marks returns the names of all marks, one for each slot that is used.
func (n *names) marks() []string {
	marks := make([]string, slotCount)
	for i := range n.tags {
		marks[i] = n.prefix + n.tags[i]
	}

	return marks
}

// slotOf returns the cluster's hash slot of a mark.
func slotOf(mark, prefix string) int {
	return int(crc16(strings.Trim(strings.TrimPrefix(mark, prefix), "{}")) % clusterSlots)
}

// The keys of the data as a whole share one slot. No group has a name of their length.

func (n *names) id() string      { return n.prefix + n.tags[0] + "id" }
func (n *names) opening() string { return n.prefix + n.tags[0] + "opening" }
func (n *names) holders() string { return n.prefix + n.tags[0] + "holders" }
func (n *names) numbers() string { return n.prefix + n.tags[0] + "numbers" }

// crc16 is the CRC-16/XMODEM that a cluster makes slots of.
func crc16(text string) uint16 {
	var crc uint16

	for i := range len(text) {
		crc ^= uint16(text[i]) << 8

		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}

	return crc
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
