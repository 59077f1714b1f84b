package rpc

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// fatal is a test, or one case of a property.
type fatal interface{ Fatal(args ...any) }

// inWire returns a generated message in its wire form.
func inWire(t fatal, msg proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}

	return b
}

// generated reads a message by the generated code, and checks that this would have written the same bytes.
func generated[M proto.Message](t fatal, b []byte, into M) M {
	if err := proto.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}

	if !bytes.Equal(inWire(t, into), b) {
		t.Fatal("not the bytes of the generated code", b)
	}

	return into
}

// readAnswers reads a generated message as a holder does.
func readAnswers(t fatal, batch *ledger.Batch, msg *leasewayv1.Answer) (*ledger.Answers, int, error) {
	return new(answersReader).read(inWire(t, msg), batch)
}

func genBatch(t *rapid.T) *ledger.Batch {
	batch := &ledger.Batch{
		Holder: rapid.Uint64Range(1, math.MaxUint64).Draw(t, "holder"), Name: rapid.StringN(0, 60, maxName).Draw(t, "name"),
		Seq: rapid.Uint64Range(1, maxNumber).Draw(t, "seq"), Version: rapid.Uint64().Draw(t, "version"),
		Asks: []ledger.KeyAsk{},
	}
	number := rapid.Int64()

	for range rapid.IntRange(0, 5).Draw(t, "asks") {
		ask := ledger.Ask{
			Holder: batch.Holder, Seq: batch.Seq, Lease: rapid.Uint64().Draw(t, "lease"),
			Spent: number.Draw(t, "spent"), Lag: number.Draw(t, "lag"), Debt: number.Draw(t, "debt"),
			DebtAcked: number.Draw(t, "acked"), RaiseTo: number.Draw(t, "raiseTo"), Keep: rapid.Bool().Draw(t, "keep"),
			Slots: rapid.Bool().Draw(t, "slots"), Offer: number.Draw(t, "offer"), Long: rapid.Bool().Draw(t, "long"),
			Ended: rapid.Uint64().Draw(t, "ended"), EndedSpent: number.Draw(t, "endedSpent"),
			Ahead: rapid.Bool().Draw(t, "ahead"), LagFrac: number.Draw(t, "lagFrac"),
		}
		if takes := rapid.SliceOfN(number, 0, 4).Draw(t, "takes"); len(takes) > 0 {
			ask.Takes = takes
		}

		if needs := rapid.SliceOfN(number, 0, 4).Draw(t, "needs"); len(needs) > 0 {
			ask.Needs = needs
		}

		batch.Asks = append(batch.Asks, ledger.KeyAsk{
			Rule: rapid.StringMatching(`[a-z.-]{1,9}`).Draw(t, "rule"),
			Key:  string(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "key")), Ask: ask,
		})
	}

	for range rapid.IntRange(0, 3).Draw(t, "tallies") {
		batch.Tallies = append(batch.Tallies, ledger.Tally{
			Rule: rapid.StringMatching(`[a-z.-]{1,9}`).Draw(t, "tallied"), Version: rapid.Uint64().Draw(t, "of version"),
			Allowed: number.Draw(t, "allowed"), Refused: number.Draw(t, "refused"),
		})
	}

	return batch
}

// All batches go through the same memory: nothing of one may be left in another.
func TestABatchComesThroughWhole(t *testing.T) {
	got := &ledger.Batch{Asks: []ledger.KeyAsk{}}

	rapid.Check(t, func(t *rapid.T) {
		batch := genBatch(t)
		message := appendBatch(nil, batch)
		generated(t, message, &leasewayv1.AcquireRequest{})

		if fault, err := readBatch(message, got); fault != nil || err != nil {
			t.Fatal(fault, err)
		}

		if !reflect.DeepEqual(got, batch) {
			t.Fatalf("sent %+v, got %+v", batch, got)
		}
	})
}

// genAnswer draws an answer that a ledger could give to an ask with that many takes.
func genAnswer(t *rapid.T, seq uint64, takes int) ledger.Answer {
	if rapid.IntRange(0, 5).Draw(t, "superseded") == 0 {
		return ledger.Answer{Status: ledger.Superseded, Seq: seq, Ahead: rapid.Bool().Draw(t, "ahead")}
	}

	tokens := rapid.Int64Range(0, maxTokens)
	p := rapid.Int64Range(1, 1_000_000).Draw(t, "p")
	q := rapid.Int64Range(1, rate.MaxLimit).Draw(t, "q")
	ttl := rapid.Int64Range(1, maxTTL).Draw(t, "ttl")
	span := rapid.Int64Range(0, maxSpan)

	return ledger.Answer{
		Ahead: rapid.Bool().Draw(t, "ahead"), TTL: rapid.Int64Range(0, ttl).Draw(t, "own ttl"),
		Window: ledger.Window{
			Left: span.Draw(t, "left"), Used: tokens.Draw(t, "used"), Prev: tokens.Draw(t, "prev"),
			Refused: tokens.Draw(t, "refused"), Wait: rapid.Int64Range(-1, maxSpan).Draw(t, "wait"),
		},
		Stale: rapid.Bool().Draw(t, "stale"), Seq: seq, Lease: rapid.Uint64Range(0, maxNumber).Draw(t, "lease"),
		Taken:   rapid.Uint64Range(0, 1<<takes-1).Draw(t, "taken"),
		Granted: tokens.Draw(t, "granted"), Spent: tokens.Draw(t, "spent"),
		Debt:   rapid.Int64Range(-maxTokens, maxTokens).Draw(t, "debt"),
		Level:  rate.Time{Micros: rapid.Int64Range(0, maxSpan).Draw(t, "level"), Frac: rapid.Int64Range(0, q-1).Draw(t, "frac")},
		Others: tokens.Draw(t, "others"), Holders: rapid.Int64Range(0, maxHolders).Draw(t, "holders"),
		AskAgain: rapid.Int64Range(0, maxSpan).Draw(t, "askAgain"), Short: rapid.Bool().Draw(t, "short"),
		Terms: ledger.Terms{
			Algorithm: rate.Algorithm(rapid.IntRange(0, int(rate.Concurrency)).Draw(t, "algorithm")),
			Bucket:    rate.Bucket{P: p, Q: q, Burst: rapid.Int64Range(1, rate.MaxProduct/p).Draw(t, "burst")},
			Version:   rapid.Uint64Range(0, 3).Draw(t, "version"), Revision: rapid.Uint64().Draw(t, "revision"),
			TTL: ttl, Length: span.Draw(t, "length"),
			Calendar: ledger.Calendar{Start: span.Draw(t, "start"), End: span.Draw(t, "end"), Next: span.Draw(t, "next")},
		},
	}
}

// So do all answers.
func TestAnswersComeThroughWhole(t *testing.T) {
	var (
		w     answersWire
		r     answersReader
		reply = ledger.Answers{Keys: []ledger.KeyAnswer{}}
	)

	rapid.Check(t, func(t *rapid.T) {
		batch := genBatch(t)
		batch.Reply = &reply
		answers := &ledger.Answers{
			Store: rapid.Uint64Range(1, math.MaxUint64).Draw(t, "store"), Live: rapid.Int64Range(1, maxHolders).Draw(t, "live"),
			Version: rapid.Uint64Range(0, maxNumber).Draw(t, "version"), Keys: []ledger.KeyAnswer{},
		}

		var shared ledger.Terms // keys of one rule have the same terms

		for i := range batch.Asks {
			key := ledger.KeyAnswer{Code: ledger.KeyCode(rapid.IntRange(0, int(ledger.KeyInvalid)).Draw(t, "code"))}
			if key.Code == ledger.KeyOK {
				key.Answer = genAnswer(t, batch.Seq, len(batch.Asks[i].Ask.Takes))
				if key.Answer.Status == ledger.OK {
					if shared.TTL > 0 && rapid.Bool().Draw(t, "same terms") {
						key.Answer.Terms = shared
						key.Answer.Level.Frac, key.Answer.TTL = 0, min(key.Answer.TTL, shared.TTL)
					}

					shared = key.Answer.Terms
				}
			}

			answers.Keys = append(answers.Keys, key)
		}

		message := w.append(nil, batch, answers)
		generated(t, message, &leasewayv1.Answer{})

		got, odd, err := r.read(message, batch)
		if err != nil || odd != 0 {
			t.Fatalf("%d odd keys, error %v", odd, err)
		}

		if !reflect.DeepEqual(got, answers) {
			t.Fatalf("sent %+v, got %+v", answers, got)
		}
	})
}

// Rules that go to thousands are not copied for each; a batch is, since the next one is written where it was.
func TestOnlyWhatIsWrittenAgainIsCopied(t *testing.T) {
	message := []byte("message")

	for _, row := range []struct {
		message any
		copied  bool
	}{{sent(message), false}, {&batchWire{request: message}, true}} {
		data, err := newCodec().Marshal(row.message)
		if err != nil || data.Len() != len(message) {
			t.Fatalf("%T: %d bytes, error %v", row.message, data.Len(), err)
		}

		if copied := &data[0].ReadOnlyData()[0] != &message[0]; copied != row.copied {
			t.Errorf("%T copied: %v", row.message, copied)
		}

		data.Free()
	}
}

func TestTermsAreSentOnceForKeysOfOneRule(t *testing.T) {
	answers := &ledger.Answers{Store: 1, Live: 1}
	batch := &ledger.Batch{Holder: 1, Seq: 1, Asks: make([]ledger.KeyAsk, 100)}

	for i := range batch.Asks {
		terms := ledger.Terms{Bucket: rate.Bucket{P: 1, Q: 1, Burst: int64(i%3) + 1}, TTL: 1}
		answers.Keys = append(answers.Keys, ledger.KeyAnswer{Answer: ledger.Answer{Seq: 1, Terms: terms}})
	}

	message := new(answersWire).append(nil, batch, answers)
	if got := len(generated(t, message, &leasewayv1.Answer{}).GetTerms()); got != 3 {
		t.Errorf("%d terms for 100 keys of three rules", got)
	}

	for i := range answers.Keys { // each key under an override of its own
		answers.Keys[i].Answer.Terms.Bucket.Burst = int64(i + 1)
	}

	got, odd, err := new(answersReader).read(new(answersWire).append(nil, batch, answers), batch)
	if err != nil || odd != 0 || !reflect.DeepEqual(got.Keys, answers.Keys) {
		t.Errorf("100 overrides: %d odd, error %v", odd, err)
	}
}

// fine returns an answer to a batch with one ask of one take, in wire form.
func fine() *leasewayv1.Answer {
	return &leasewayv1.Answer{
		Holder: holderID, Seq: 1, Store: 5, Live: 1, RulesVersion: 9,
		Terms: []*leasewayv1.Terms{{PeriodUs: 1000, Tokens: 3, Burst: 10, Version: 9, TtlUs: 500_000}},
		Keys:  []*leasewayv1.KeyAnswer{{Code: leasewayv1.KeyCode_KEY_CODE_OK, Granted: 4, Holders: 1, LevelUs: 10, LevelFrac: 2}},
	}
}

func TestValuesThatNoLedgerSendsCostOnlyTheirKey(t *testing.T) {
	batch := (&calls{}).take("u1")

	if got, odd, err := readAnswers(t, batch, fine()); err != nil || odd != 0 || got.Keys[0].Code != ledger.KeyOK {
		t.Fatalf("the answer that the others are made from: %+v, %d odd, %v", got, odd, err)
	}

	for name, change := range map[string]func(*leasewayv1.KeyAnswer, *leasewayv1.Terms){
		"no code":            func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Code = 0 },
		"unknown code":       func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Code = 6 },
		"negative code":      func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Code = -1 },
		"no such terms":      func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Terms = 2 },
		"far from any terms": func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Terms = math.MaxUint32 },
		"granted below 0":    func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Granted = -1 },
		"granted beyond":     func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Granted = maxTokens + 1 },
		"spent below 0":      func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Spent = -1 },
		"others beyond":      func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Others = math.MaxInt64 },
		"debt beyond":        func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Debt = math.MinInt64 },
		"holders below 0":    func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Holders = -1 },
		"holders beyond":     func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Holders = math.MaxInt64 },
		"level below 0":      func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.LevelUs = -1 },
		"level beyond":       func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.LevelUs = maxSpan + 1 },
		"fraction of one":    func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.LevelFrac = 3 },
		"fraction below 0":   func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.LevelFrac = -1 },
		"ask again below 0":  func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.AskAgainUs = -1 },
		"ask again beyond":   func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.AskAgainUs = math.MaxInt64 },
		"lease beyond":       func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Lease = math.MaxUint64 },
		"a take too many":    func(k *leasewayv1.KeyAnswer, _ *leasewayv1.Terms) { k.Taken = 0b10 },
		"no period":          func(_ *leasewayv1.KeyAnswer, t *leasewayv1.Terms) { t.PeriodUs = 0 },
		"no tokens":          func(_ *leasewayv1.KeyAnswer, t *leasewayv1.Terms) { t.Tokens = 0 },
		"tokens beyond":      func(_ *leasewayv1.KeyAnswer, t *leasewayv1.Terms) { t.Tokens = rate.MaxLimit + 1 },
		"no burst":           func(_ *leasewayv1.KeyAnswer, t *leasewayv1.Terms) { t.Burst = 0 },
		"burst × period":     func(_ *leasewayv1.KeyAnswer, t *leasewayv1.Terms) { t.Burst = rate.MaxProduct/1000 + 1 },
		"both overflow":      func(_ *leasewayv1.KeyAnswer, t *leasewayv1.Terms) { t.Burst, t.PeriodUs = 1<<32, 1<<32 },
		"no ttl":             func(_ *leasewayv1.KeyAnswer, t *leasewayv1.Terms) { t.TtlUs = 0 },
		"ttl beyond an hour": func(_ *leasewayv1.KeyAnswer, t *leasewayv1.Terms) { t.TtlUs = maxTTL + 1 },
		"version beyond":     func(_ *leasewayv1.KeyAnswer, t *leasewayv1.Terms) { t.Version = maxNumber + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			msg := fine()
			msg.Keys = append(msg.Keys, fine().GetKeys()[0])
			msg.Keys[1].Terms = 1
			msg.Terms = append(msg.Terms, fine().GetTerms()[0])
			change(msg.GetKeys()[0], msg.GetTerms()[0])

			got, odd, err := readAnswers(t, (&calls{}).take("u1", "u2"), msg)
			if err != nil {
				t.Fatal(err)
			}

			if got.Keys[0] != (ledger.KeyAnswer{Code: ledger.KeyUnavailable}) || odd != 1 || got.Keys[1].Code != ledger.KeyOK {
				t.Errorf("%d odd keys, answers %+v", odd, got.Keys)
			}
		})
	}
}

func TestMessagesThatAreNoAnswersAreRefusedWhole(t *testing.T) {
	for name, change := range map[string]func(*leasewayv1.Answer){
		"no keys":       func(m *leasewayv1.Answer) { m.Keys = nil },
		"a key more":    func(m *leasewayv1.Answer) { m.Keys = append(m.Keys, m.GetKeys()[0]) },
		"no store":      func(m *leasewayv1.Answer) { m.Store = 0 },
		"nobody lives":  func(m *leasewayv1.Answer) { m.Live = 0 },
		"live beyond":   func(m *leasewayv1.Answer) { m.Live = math.MaxInt64 },
		"rules' number": func(m *leasewayv1.Answer) { m.RulesVersion = math.MaxUint64 },
	} {
		msg := fine()
		change(msg)

		if _, _, err := readAnswers(t, (&calls{}).take("u1"), msg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestBatchesThatCannotBeReadNameTheField(t *testing.T) {
	for field, req := range map[string]*leasewayv1.AcquireRequest{
		"holder":  {Seq: 1},
		"name":    {Holder: 1, Seq: 1, Name: strings.Repeat("n", maxName+1)},
		"seq":     {Holder: 1, Seq: 1 << 53},
		"asks":    {Holder: 1, Seq: 1, Asks: make([]*leasewayv1.KeyAsk, MaxAsks+1)},
		"tallies": {Holder: 1, Seq: 1, Tallies: make([]*leasewayv1.Tally, ledger.MaxTallies+1)},
	} {
		if _, fault := readRequest(t, req); fault == nil || fault.field != field {
			t.Errorf("%s: fault %+v", field, fault)
		}
	}
}

// A message of a byte for each take must not become one of eight, or sixteen while it grows, before anybody looked at it: who
// sends it may have no token.
func TestTooManyTakesTakeNoMemory(t *testing.T) {
	many := make([]int64, 1<<20)
	ask := &leasewayv1.KeyAsk{Rule: "r", Takes: many, Needs: many}
	packed := inWire(t, &leasewayv1.AcquireRequest{Holder: 1, Seq: 1, Asks: []*leasewayv1.KeyAsk{ask}})

	numbers := bytes.Repeat([]byte{8<<3 | byte(varintType), 1}, 1<<20) // one field each
	single := append(protowire.AppendVarint([]byte{9, 1, 0, 0, 0, 0, 0, 0, 0, 24, 1, 42}, uint64(len(numbers))), numbers...)

	for name, message := range map[string][]byte{"packed": packed, "one by one": single} {
		var batch ledger.Batch

		bytesPer := testing.Benchmark(func(b *testing.B) {
			b.Helper()

			for range b.N {
				if fault, err := readBatch(message, &batch); fault != nil || err != nil {
					b.Fatal(fault, err)
				}
			}
		}).AllocedBytesPerOp()

		if n := len(batch.Asks[0].Ask.Takes); n != ledger.MaxTakes+1 || bytesPer > 16<<10 {
			t.Errorf("%s: %d takes are kept, which the coordinator cannot refuse, or %d bytes for them", name, n, bytesPer)
		}
	}
}

// A request may hold no message where there should be one, which must not be a panic.
func TestMissingMessagesAreEmptyOnes(t *testing.T) {
	batch, fault := readRequest(t, &leasewayv1.AcquireRequest{Holder: 1, Seq: 1, Asks: []*leasewayv1.KeyAsk{nil}})
	if fault != nil || len(batch.Asks) != 1 {
		t.Errorf("batch %+v, fault %v", batch, fault)
	}

	msg := fine()
	msg.Keys[0], msg.Terms[0] = &leasewayv1.KeyAnswer{}, &leasewayv1.Terms{}

	if got, odd, err := readAnswers(t, (&calls{}).take("u1"), msg); err != nil || odd != 1 || got.Keys[0].Code != ledger.KeyUnavailable {
		t.Errorf("answers %+v, %d odd, error %v", got, odd, err)
	}
}

func TestNamesAreMadeFitForTheWire(t *testing.T) {
	for in, want := range map[string]string{
		"api-1": "api-1", "a\xffb": "a?b", strings.Repeat("n", 300): strings.Repeat("n", 256),
		strings.Repeat("n", 255) + "é": strings.Repeat("n", 255) + "?",
	} {
		if got := cleanName(in); got != want {
			t.Errorf("cleanName(%q) = %q, want %q", in, got, want)
		}
	}
}

// readRequest reads a generated message as a server does, into fresh memory.
func readRequest(t *testing.T, req *leasewayv1.AcquireRequest) (*ledger.Batch, *fault) {
	t.Helper()

	batch := &ledger.Batch{}

	fault, err := readBatch(inWire(t, req), batch)
	if err != nil {
		t.Fatal(err)
	}

	return batch, fault
}
