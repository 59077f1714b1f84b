package envoyrls

import (
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a message: its text if it has a length, else its number.
type field struct {
	num    protowire.Number
	kind   protowire.Type
	text   string
	number uint64
}

func (f *field) is(num protowire.Number, kind protowire.Type) bool {
	return f.num == num && f.kind == kind
}

// eachField calls do with each field of a message, until it is false; it returns false then, and for what is no message.
func eachField(message string, do func(field) bool) bool {
	rest := view(message)

	for len(rest) > 0 {
		num, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return false
		}

		rest = rest[n:]
		f := field{num: num, kind: kind}

		switch kind {
		case protowire.BytesType:
			var text []byte
			if text, n = protowire.ConsumeBytes(rest); n >= 0 {
				from := len(message) - len(rest) + n - len(text)
				f.text = message[from : from+len(text)]
			}
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(rest)
		default:
			n = protowire.ConsumeFieldValue(num, kind, rest)
		}

		if n < 0 || !do(f) {
			return false
		}

		rest = rest[n:]
	}

	return true
}

// view is a text as bytes that nobody may write to.
func view(text string) []byte {
	return unsafe.Slice(unsafe.StringData(text), len(text)) //nolint:gosec // only read
}

func appendUint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}

	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func appendText(b []byte, num protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), text)
}

// begin starts a nested message, with two bytes for its size, which is written when it ends. Sizes in more bytes than they need
// are sound, and readers take them.
func begin(b []byte, num protowire.Number) (next []byte, at int) {
	b = append(protowire.AppendTag(b, num, protowire.BytesType), 0, 0)

	return b, len(b)
}

// end writes the size of the nested message that began before at: 16,383 bytes at most.
func end(b []byte, at int) []byte {
	size := len(b) - at
	b[at-2], b[at-1] = byte(size)|0x80, byte(size>>7)

	return b
}
