package rpc

import (
	"math/bits"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leaseway/leaseway/internal/ledger"
)

// The messages of Acquire are written and read without the generated types: a
// call of 256 keys would make five memory objects of each, on either side. What is
// on the wire is the same, byte by byte; a test holds the two together.

// The shorter names of wire types.
const (
	varintType  = protowire.VarintType
	fixed64Type = protowire.Fixed64Type
	bytesType   = protowire.BytesType
)

// appendUint appends a field that is not 0.
func appendUint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}

	return protowire.AppendVarint(protowire.AppendTag(b, num, varintType), v)
}

func appendInt(b []byte, num protowire.Number, v int64) []byte { return appendUint(b, num, uint64(v)) }

// appendSint appends a field of type sint64.
func appendSint(b []byte, num protowire.Number, v int64) []byte {
	return appendUint(b, num, protowire.EncodeZigZag(v))
}

func appendBool(b []byte, num protowire.Number, v bool) []byte {
	if !v {
		return b
	}

	return appendUint(b, num, 1)
}

func appendFixed(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}

	return protowire.AppendFixed64(protowire.AppendTag(b, num, fixed64Type), v)
}

// appendText appends a string or bytes that are not empty.
func appendText[T string | []byte](b []byte, num protowire.Number, v T) []byte {
	if len(v) == 0 {
		return b
	}

	b = protowire.AppendVarint(protowire.AppendTag(b, num, bytesType), uint64(len(v)))

	return append(b, v...)
}

// appendPacked appends the numbers of a repeated field.
func appendPacked(b []byte, num protowire.Number, values []int64) []byte {
	if len(values) == 0 {
		return b
	}

	b, at := begin(b, num)
	for _, v := range values {
		b = protowire.AppendVarint(b, uint64(v))
	}

	return finish(b, at)
}

// begin appends the head of a field whose size is not known yet; finish writes it when the field ends.
func begin(b []byte, num protowire.Number) (next []byte, at int) {
	b = append(protowire.AppendTag(b, num, bytesType), 0)

	return b, len(b)
}

// finish writes the size of the field that has begun at at. Most take one byte for it, which begin left.
func finish(b []byte, at int) []byte {
	size := len(b) - at
	if size < 1<<7 {
		b[at-1] = byte(size)

		return b
	}

	more := (bits.Len64(uint64(size))+6)/7 - 1
	for range more {
		b = append(b, 0)
	}

	copy(b[at+more:], b[at:])
	protowire.AppendVarint(b[:at-1], uint64(size))

	return b
}

// fields reads a message field by field. What cannot be read ends it, and broken says so.
type fields struct {
	rest   []byte
	broken bool
}

// next returns the number and wire type of the next field; ok is false when there is none.
func (f *fields) next() (num int32, kind protowire.Type, ok bool) {
	if len(f.rest) == 0 {
		return 0, 0, false
	}

	if tag := f.rest[0]; tag >= 1<<3 && tag < 1<<7 { // most numbers are below 16
		f.rest = f.rest[1:]

		return int32(tag >> 3), protowire.Type(tag & 7), true
	}

	number, kind, n := protowire.ConsumeTag(f.rest)
	if number > protowire.MaxValidNumber {
		n = -1
	}

	f.advance(n)

	return int32(number), kind, !f.broken
}

// advance goes n bytes on, which is below 0 for what cannot be read.
func (f *fields) advance(n int) {
	if n < 0 {
		f.rest, f.broken = nil, true

		return
	}

	f.rest = f.rest[n:]
}

func (f *fields) uint() uint64 {
	if len(f.rest) > 0 && f.rest[0] < 1<<7 {
		v := f.rest[0]
		f.rest = f.rest[1:]

		return uint64(v)
	}

	v, n := protowire.ConsumeVarint(f.rest)
	f.advance(n)

	return v
}

func (f *fields) fixed() uint64 {
	v, n := protowire.ConsumeFixed64(f.rest)
	f.advance(n)

	return v
}

// text returns the bytes of a field, which are part of the message.
func (f *fields) text() []byte {
	v, n := protowire.ConsumeBytes(f.rest)
	f.advance(n)

	return v
}

// skip goes past a field that is not known here, or is of another type than it should be.
func (f *fields) skip(num int32, kind protowire.Type) {
	f.advance(protowire.ConsumeFieldValue(protowire.Number(num), kind, f.rest))
}

// packed appends the numbers of a repeated field to list, as several does.
func (f *fields) packed(list []int64) []int64 {
	numbers := fields{rest: f.text()}
	for len(numbers.rest) > 0 {
		list = several(list, numbers.uint())
	}

	f.broken = f.broken || numbers.broken

	return list
}

// several appends a number of a repeated field to list, and no more than show that there are too many: each takes
// one byte in a message, and eight in the list.
func several(list []int64, v uint64) []int64 {
	if len(list) > ledger.MaxTakes {
		return list
	}

	return append(list, int64(v))
}
