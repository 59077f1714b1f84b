package redis

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/slots"
)

// What lua/11_codec.lua keeps, read for people to look at. Only Lua writes it.

const stateLayout = 1

var errLayout = errors.New("it is kept in a way that this version does not know (use the version of the coordinators)")

// A cursor reads little-endian numbers off the front of bytes, 0 once they are used up.
type cursor struct {
	left []byte
	over bool // more was read than there was
}

func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > len(c.left) {
		c.over, c.left = true, nil

		return make([]byte, max(0, min(n, 64)))
	}

	b := c.left[:n]
	c.left = c.left[n:]

	return b
}

func (c *cursor) unsigned(n int) (v uint64) {
	for _, b := range slices.Backward(c.bytes(n)) {
		v = v<<8 | uint64(b)
	}

	return v
}

func (c *cursor) int() int64 { return int64(c.unsigned(8)) }

// count reads how many entries of size bytes follow later, never more than there can be.
func (c *cursor) count(size int) int {
	n := int(c.unsigned(4))
	if n > len(c.left)/size {
		c.over = true

		return 0
	}

	return n
}

// terms reads terms without their name.
func (c *cursor) terms() (t ledger.Terms) {
	const whole, calendar = 1 + 7 + 5 + 7 + 7 + 7 + 7 + 2 + 7, 14

	size := whole
	if len(c.left) > 0 && c.left[0]&termsCalendar != 0 {
		size += calendar
	}

	b := c.bytes(size)
	if !c.over {
		t = readTerms(b)
	}

	return t
}

// readHeld reads a ledger that is kept by itself.
func readHeld(text string) (s ledger.State, err error) {
	c := &cursor{left: []byte(text)}
	if c.unsigned(1) != stateLayout {
		return s, errLayout
	}

	c.bytes(4) // the name of the terms
	s.Terms = c.terms()
	s.Now = c.int()
	s.TAT = rate.Time{Micros: c.int(), Frac: c.int()}
	s.Window = rate.Window{Start: c.int(), Used: c.int(), Prev: c.int()}
	s.Ahead.Start, s.Ahead.Used = c.int(), c.int()
	s.Slots.Closed, s.Slots.Sum, s.Slots.At = c.int(), c.int(), c.int()

	const admission, lease, holding = 16, 8 + 8*8 + 2*4, 2*8 + 5*8 + 1

	entries, live, old, next, held := c.count(admission), c.count(lease), c.count(lease), c.count(lease), c.count(holding)

	for range entries {
		s.Log = append(s.Log, rate.Admission{At: c.int(), N: c.int()})
	}

	s.Leases, s.Old, s.Ahead.Leases = c.leases(live), c.leases(old), c.leases(next)

	for range held {
		s.Slots.Holdings = append(s.Slots.Holdings, slots.Holding{
			Holder: c.unsigned(8), Name: c.unsigned(8), Slots: c.int(), Exp: c.int(), Seq: c.unsigned(8), Version: c.unsigned(8),
			Offer: c.int(), Fate: slots.Fate(c.unsigned(1)),
		})
	}

	if c.over || len(c.left) > 0 {
		return ledger.State{}, errLayout
	}

	return s, nil
}

func (c *cursor) leases(n int) (list []ledger.Lease) {
	for range n {
		l := ledger.Lease{
			Holder: c.unsigned(8), ID: c.unsigned(8), Granted: c.int(), Spent: c.int(), Debt: c.int(), Exp: c.int(), Due: c.int(),
			Seq: c.unsigned(8), Version: c.unsigned(8),
		}
		low, high := c.unsigned(4), c.unsigned(4)
		l.Taken = low | high<<32
		list = append(list, l)
	}

	return list
}

// readRest reads a ledger at rest, as its group has it, under terms.
func readRest(text string, terms ledger.Terms) (ledger.State, error) {
	c := &cursor{left: []byte(text)}
	c.bytes(4) // the name of the terms

	s := ledger.State{Terms: terms, Now: int64(c.unsigned(7))}
	sizes := c.unsigned(1)
	a, b := int64(c.unsigned(int(sizes/16))), int64(c.unsigned(int(sizes%16)))

	if c.over || len(c.left) > 0 {
		return ledger.State{}, errLayout
	}

	if terms.Algorithm == rate.TokenBucket || terms.Algorithm == rate.LeakyBucket {
		s.Unpack(rate.Time{Micros: s.Now + a, Frac: b})
	} else {
		s.Unpack(rate.Time{Micros: s.Now - a, Frac: b})
	}

	return s, nil
}

// restRef is the name of the terms of a ledger at rest.
func restRef(text string) string { return text[:min(4, len(text))] }

// lossIn reads a mark.
func lossIn(mark string) (int64, error) {
	if len(mark) != 8 {
		return 0, errLayout
	}

	return int64(binary.LittleEndian.Uint64([]byte(mark))), nil
}
