package rpc

import (
	"crypto/ed25519"
	"slices"
)

// envelope is an Envelope as an AcquireResponse carries it. It is read where it is.
type envelope struct{ body, keyID, signature []byte }

// appendResponse appends an AcquireResponse whose body is what follows the context in signed.
func (s *Signer) appendResponse(b []byte, context string, signed []byte) []byte {
	b, at := begin(b, 1)
	b = appendText(b, 1, signed[len(context):])

	if s != nil {
		b = appendText(b, 2, s.id)
		b = appendText(b, 3, ed25519.Sign(s.key, signed))
	}

	return finish(b, at)
}

// receive reads an AcquireResponse, and reports whether it is one. present is false when there is no envelope in it.
func (e *envelope) receive(message []byte) (present, ok bool) {
	*e = envelope{}
	f := fields{rest: message}

	for {
		num, kind, more := f.next()
		if !more {
			return present, !f.broken
		}

		if num != 1 || kind != bytesType {
			f.skip(num, kind)

			continue
		}

		present = true
		f.broken = !e.fill(f.text()) || f.broken
	}
}

// fill reads an Envelope.
func (e *envelope) fill(message []byte) bool {
	f := fields{rest: message}

	for {
		num, kind, more := f.next()
		if !more {
			return !f.broken
		}

		switch {
		case num == 1 && kind == bytesType:
			e.body = f.text()
		case num == 2 && kind == bytesType:
			e.keyID = f.text()
		case num == 3 && kind == bytesType:
			e.signature = f.text()
		default:
			f.skip(num, kind)
		}
	}
}

// reply is an AcquireResponse that was received.
type reply struct {
	envelope
	answersReader

	present bool
	signed  []byte // memory for the context and the body
}

// hear reads the response; see receiver.
func (r *reply) hear(message []byte) error {
	present, ok := r.receive(message)
	if !ok {
		return errWire
	}

	r.present = present

	return nil
}

// under returns what is signed under a context.
func (r *reply) under(context string) []byte {
	r.signed = append(append(slices.Grow(keep(r.signed), len(context)+len(r.body)), context...), r.body...)

	return r.signed
}
