package rpc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// keepBytes is how much memory of one call is kept for the next.
const keepBytes = 256 << 10

// Messages that write and read themselves.
type (
	// sent is in wire form, and nobody writes to it any more: many streams may share it.
	sent []byte
	// sender returns itself in wire form, in memory of its own that it uses again.
	sender interface{ wire() []byte }
	// receiver reads a message, which is its own to keep.
	receiver interface{ hear(message []byte) error }
)

// Messages of other doors that do the same, without the generated types.
type (
	// Sender returns itself in wire form; Sent is called when nobody needs that memory any more.
	Sender interface {
		Wire() []byte
		Sent()
	}
	// Receiver reads a message, which it must not keep; the error is for one that cannot be answered at all.
	Receiver interface{ Hear(message []byte) error }
)

// codec is gRPC's own, but for messages that write and read themselves.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal returns a message in wire form. What it was made from may be used again.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch message := v.(type) {
	case sent:
		return mem.BufferSlice{mem.SliceBuffer(message)}, nil
	case sender:
		return mem.BufferSlice{mem.Copy(message.wire(), mem.DefaultBufferPool())}, nil
	case Sender:
		slice := mem.BufferSlice{mem.Copy(message.Wire(), mem.DefaultBufferPool())}
		message.Sent()

		return slice, nil
	default:
		return c.CodecV2.Marshal(v)
	}
}

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) (err error) {
	switch r := v.(type) {
	case receiver:
		err = r.hear(data.Materialize())
	case Receiver:
		err = r.Hear(whole(data))
	default:
		return c.CodecV2.Unmarshal(data, v)
	}

	if err != nil {
		return fmt.Errorf("rpc: a message cannot be read: %w", err)
	}

	return nil
}

// whole is a message in one piece. Most came so, and are not copied: gRPC takes them back.
func whole(data mem.BufferSlice) []byte {
	if len(data) == 1 {
		return data[0].ReadOnlyData()
	}

	return data.Materialize()
}

// keep returns b without what is in it, or nothing when it is too large to be worth it.
func keep(b []byte) []byte {
	if cap(b) > keepBytes {
		return nil
	}

	return b[:0]
}
