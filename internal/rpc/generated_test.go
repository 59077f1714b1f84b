package rpc

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/ledger"
)

// Every field of the messages is written and read: a new one in proto/ needs a place in appendAsk and readAsk, or their like.
func TestNoFieldIsForgotten(t *testing.T) {
	ask, terms, key := filled(&leasewayv1.KeyAsk{}), filled(&leasewayv1.Terms{}), filled(&leasewayv1.KeyAnswer{})
	key.Code, key.Superseded, key.Terms, key.Ahead = leasewayv1.KeyCode_KEY_CODE_OK, false, 0, true

	req := filled(&leasewayv1.AcquireRequest{})
	req.Asks = []*leasewayv1.KeyAsk{ask}
	req.Tallies = []*leasewayv1.Tally{filled(&leasewayv1.Tally{})}

	batch, fault := readRequest(t, req)
	if fault != nil || !bytes.Equal(appendBatch(nil, batch), inWire(t, req)) {
		t.Errorf("fault %v; sent %v, got %+v", fault, req, batch)
	}

	msg := filled(&leasewayv1.Answer{})
	msg.Terms, msg.Keys = []*leasewayv1.Terms{terms}, []*leasewayv1.KeyAnswer{key}

	var r answersReader

	answers := &ledger.Answers{Keys: make([]ledger.KeyAnswer, 1)}
	if !r.open(inWire(t, msg), answers) {
		t.Fatal("it cannot be read")
	}

	if well, ok := r.key(r.keys[0], &answers.Keys[0]); !well || !ok {
		t.Fatal("its key cannot be read")
	}

	got := new(answersWire).append(nil, &ledger.Batch{Holder: r.holder, Seq: r.seq}, answers)
	if !bytes.Equal(got, inWire(t, msg)) {
		t.Errorf("sent %v, got %+v", msg, answers)
	}
}

// filled sets every field of a message that holds no messages to 3, true or "3".
func filled[M proto.Message](msg M) M {
	m := msg.ProtoReflect()
	fields := m.Descriptor().Fields()

	for i := range fields.Len() {
		field := fields.Get(i)

		var v protoreflect.Value

		switch field.Kind() {
		case protoreflect.MessageKind:
			continue
		case protoreflect.BoolKind:
			v = protoreflect.ValueOfBool(true)
		case protoreflect.StringKind:
			v = protoreflect.ValueOfString("3")
		case protoreflect.BytesKind:
			v = protoreflect.ValueOfBytes([]byte("3"))
		case protoreflect.EnumKind:
			v = protoreflect.ValueOfEnum(3)
		case protoreflect.Uint32Kind:
			v = protoreflect.ValueOfUint32(3)
		case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
			v = protoreflect.ValueOfUint64(3)
		default:
			v = protoreflect.ValueOfInt64(3)
		}

		if field.IsList() {
			m.Mutable(field).List().Append(v)
		} else {
			m.Set(field, v)
		}
	}

	return msg
}

// What is read of any bytes is what the generated code reads of them, and what that refuses is refused.
func FuzzBatch(f *testing.F) {
	for _, req := range []*leasewayv1.AcquireRequest{
		{Holder: 1, Seq: 2, Name: "n", Asks: []*leasewayv1.KeyAsk{{Rule: "r", Key: []byte("k"), Takes: []int64{1, 300}, LagUs: -5, Offer: 7, Long: true}}},
		{Holder: 1, Seq: 2, Tallies: []*leasewayv1.Tally{{Rule: "r", Version: 9, Allowed: 5, Refused: 300}, {}}},
		{Holder: 1, Seq: 2, Asks: []*leasewayv1.KeyAsk{{Rule: strings.Repeat("r", 200)}, {Rule: "r"}, {Rule: "r"}}},
	} {
		f.Add(inWire(f, req))
	}

	f.Add([]byte("\x2a\x04\x40\x01\x40\x02")) // takes one by one
	f.Add([]byte("\x12\x01\xff"))             // a name that is no UTF-8
	f.Add([]byte("\x2a\x03\x0a\x01\xff"))     // nor is this rule
	f.Add([]byte("\x32\x03\x0a\x01\xff"))     // nor that of a tally
	f.Add([]byte("\x0b\x0c"))                 // a group

	f.Fuzz(func(t *testing.T, message []byte) {
		req, batch := &leasewayv1.AcquireRequest{}, &ledger.Batch{}
		wrong := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(message, req)

		for _, ask := range req.GetAsks() { // of too many only that is kept
			ask.Takes = ask.GetTakes()[:min(len(ask.GetTakes()), ledger.MaxTakes+1)]
			ask.Needs = ask.GetNeeds()[:min(len(ask.GetNeeds()), ledger.MaxTakes+1)]
		}

		fault, err := readBatch(bytes.Clone(message), batch)
		if (err == nil) != (wrong == nil) {
			t.Fatalf("error %v, of the generated code %v", err, wrong)
		}

		if err == nil && fault == nil && !bytes.Equal(appendBatch(nil, batch), inWire(t, req)) {
			t.Fatalf("read %+v, the generated code %v", batch, req)
		}
	})
}

// The same of answers, as far as a holder looks at them.
func FuzzAnswer(f *testing.F) {
	f.Add(inWire(f, fine()))
	f.Add([]byte("\x3a\x02\x08\x07\x32\x02\x38\x7f"))

	f.Fuzz(func(t *testing.T, message []byte) {
		msg := &leasewayv1.Answer{}
		wrong := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(message, msg)
		batch := &ledger.Batch{Holder: msg.GetHolder(), Seq: msg.GetSeq(), Asks: make([]ledger.KeyAsk, len(msg.GetKeys()))}

		var r answersReader

		answers, odd, err := r.read(message, batch)
		if wrong != nil && err == nil || wrong == nil && errors.Is(err, errWire) {
			t.Fatalf("error %v, of the generated code %v", err, wrong)
		}

		if err != nil || odd > 0 {
			return
		}

		for i, key := range msg.GetKeys() {
			got := answers.Keys[i].Answer
			if got.Status == ledger.OK && answers.Keys[i].Code == ledger.KeyOK &&
				(got.Granted != key.GetGranted() || got.Lease != key.GetLease() || got.Terms.Bucket.Burst != msg.GetTerms()[key.GetTerms()].GetBurst()) {
				t.Fatalf("read %+v, the generated code %v", got, key)
			}
		}
	})
}
