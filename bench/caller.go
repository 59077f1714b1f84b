package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	frameHead   = 9           // bytes before each frame
	messageHead = 5           // bytes before each message of gRPC
	callerTime  = time.Minute // in which all of it must be over
	callerRoom  = 1 << 30     // bytes that a server may send over one connection before it would have to be told to go on
)

// caller is one connection over which one call of gRPC follows the other. It does what HTTP/2 asks of a client and no more, since what
// callers use of the processors is missing to the server: one made by grpc-go takes as much as the server.
type caller struct {
	conn   net.Conn
	reader *bufio.Reader
	head   []byte // the header block of every call after the first, which the server knows by heart
	first  []byte // that of the first
	fields *hpack.Decoder
	status string // of the call under way
	acks   []byte // for settings and pings, which leave with the next call, as they do from callers that do more
	out    []byte
	body   []byte
	stream uint32 // of the last call
}

// dialCaller connects a caller of one method at an address.
func dialCaller(address, method string) (*caller, error) {
	conn, err := net.Dial("tcp", address) //nolint:noctx // a benchmark ends by itself
	if err != nil {
		return nil, err
	}

	if err := conn.SetDeadline(time.Now().Add(callerTime)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}

	c := &caller{conn: conn, reader: bufio.NewReader(conn)}
	c.first, c.head = callHeads(address, method)
	c.fields = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" {
			c.status = f.Value
		}
	})

	var hello bytes.Buffer

	hello.WriteString(http2.ClientPreface)

	framer := http2.NewFramer(&hello, nil)
	if err := errors.Join(framer.WriteSettings(), framer.WriteWindowUpdate(0, callerRoom)); err != nil {
		return nil, err
	}

	_, err = conn.Write(hello.Bytes())

	return c, err
}

// callHeads are the header blocks of the first call of a connection, and of those after it.
func callHeads(address, method string) (first, next []byte) {
	var block bytes.Buffer

	encoder := hpack.NewEncoder(&block)
	encode := func() []byte {
		block.Reset()

		for _, f := range []hpack.HeaderField{
			{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method},
			{Name: ":authority", Value: address}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
		} {
			_ = encoder.WriteField(f) // a buffer takes all
		}

		return bytes.Clone(block.Bytes())
	}

	return encode(), encode()
}

// call sends a message and returns the answer, which is valid until the next call.
func (c *caller) call(message []byte) ([]byte, error) {
	head := c.head
	if c.stream == 0 {
		head, c.stream = c.first, 1
	} else {
		c.stream += 2
	}

	c.out = append(c.out[:0], c.acks...)
	c.acks = c.acks[:0]
	b := c.appendFrame(c.out, http2.FrameHeaders, http2.FlagHeadersEndHeaders, len(head))
	b = append(b, head...)
	b = c.appendFrame(b, http2.FrameData, http2.FlagDataEndStream, messageHead+len(message))
	b = append(b, 0) // not compressed
	b = binary.BigEndian.AppendUint32(b, uint32(len(message)))
	b = append(b, message...)
	c.out = b

	if _, err := c.conn.Write(c.out); err != nil {
		return nil, err
	}

	c.body, c.status = c.body[:0], ""

	for ended := false; !ended; {
		var err error
		if ended, err = c.frame(); err != nil {
			return nil, err
		}
	}

	if c.status != "0" || len(c.body) < messageHead {
		return nil, fmt.Errorf("grpc-status %q with %d bytes", c.status, len(c.body))
	}

	return c.body[messageHead:], nil
}

func (c *caller) appendFrame(b []byte, kind http2.FrameType, flags http2.Flags, size int) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), byte(kind), byte(flags))

	return binary.BigEndian.AppendUint32(b, c.stream)
}

// frame reads one frame; ended says that it is the last one of the call.
func (c *caller) frame() (ended bool, err error) {
	head, err := http2.ReadFrameHeader(c.reader)
	if err != nil {
		return false, err
	}

	payload, err := c.reader.Peek(int(head.Length))
	if err != nil {
		return false, err
	}

	switch head.Type {
	case http2.FrameHeaders:
		if !head.Flags.Has(http2.FlagHeadersEndHeaders) || head.Flags.Has(http2.FlagHeadersPadded|http2.FlagHeadersPriority) {
			return false, errors.New("headers in a form that servers of gRPC do not send")
		}

		_, err = c.fields.Write(payload)
	case http2.FrameData:
		c.body = append(c.body, payload...)
	case http2.FrameSettings, http2.FramePing:
		c.acknowledge(head, payload)
	case http2.FrameRSTStream, http2.FrameGoAway:
		err = fmt.Errorf("the server ended it: %v", head)
	case http2.FrameWindowUpdate: // little is sent
	default:
		err = fmt.Errorf("an unexpected frame: %v", head)
	}

	_, discarded := c.reader.Discard(len(payload))
	ends := head.StreamID == c.stream && head.Flags.Has(http2.FlagDataEndStream) // the same flag in both types

	return ends && head.Type <= http2.FrameHeaders, errors.Join(err, discarded)
}

// acknowledge says of settings and pings that they came.
func (c *caller) acknowledge(head http2.FrameHeader, payload []byte) {
	if head.Flags.Has(http2.FlagSettingsAck) { // the same flag in both types
		return
	}

	if head.Type == http2.FrameSettings {
		payload = nil
	}

	c.acks = append(c.acks, 0, 0, byte(len(payload)), byte(head.Type), byte(http2.FlagSettingsAck), 0, 0, 0, 0)
	c.acks = append(c.acks, payload...)
}

func (c *caller) close() { _ = c.conn.Close() }
