package rpc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// keepBytes is how much memory of one call is kept for the next.
const keepBytes = 256 << 10

// A sender and a receiver are messages that write and read themselves. message is the receiver's to keep.
type (
	sender   interface{ wire() []byte }
	receiver interface{ hear(message []byte) error }
)

// codec is gRPC's own, but for messages that write and read themselves.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal returns a message in wire form. What it was made from may be used again.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	s, ok := v.(sender)
	if !ok {
		return c.CodecV2.Marshal(v)
	}

	return mem.BufferSlice{mem.Copy(s.wire(), mem.DefaultBufferPool())}, nil
}

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(receiver)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}

	if err := r.hear(data.Materialize()); err != nil {
		return fmt.Errorf("rpc: a message cannot be read: %w", err)
	}

	return nil
}

// keep returns b without what is in it, or nothing when it is too large to be worth it.
func keep(b []byte) []byte {
	if cap(b) > keepBytes {
		return nil
	}

	return b[:0]
}
