package envoyrls

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

const fuzzed = `rules:
  - {id: a, scope: {domain: d, entries: [k]}, keyBy: descriptor:k, missing: shared, limit: 1000000, window: 1s}
  - {id: b, scope: {domain: d, entries: [{key: k, value: 'x*', except: xy}, l]}, keyBy: [descriptor:k, descriptor:l], limit: 5, window: 1h}
  - {id: c, scope: {domain: d, descriptors: {m: x}}, limit: 5, window: 1h, mode: shadow}
`

func message(tb testing.TB, msg proto.Message) []byte {
	tb.Helper()

	wire, err := proto.Marshal(msg)
	if err != nil {
		tb.Fatal(err)
	}

	return wire
}

// described is a descriptor of keys and values, in pairs.
func described(pairs ...string) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}

	return d
}

// Whatever is sent: no panic, a request that the generated types can read is read as they do, and the answer is one that they can
// read, with a status for each descriptor.
func FuzzRequests(f *testing.F) {
	full := described("k", "x1", "l", "é")
	full.HitsAddend, full.IsNegativeHits = wrapperspb.UInt64(1<<63), true
	full.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1<<32 - 1, Unit: 99, UnitMultiplier: wrapperspb.UInt32(7)}

	for _, seed := range []*rlsv3.RateLimitRequest{
		{}, {Domain: "d"}, {Domain: "d", HitsAddend: 1<<32 - 1, Descriptors: []*commonv3.RateLimitDescriptor{full, {}, described("", "")}},
		{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{described("k", ""), described("k", "v"), described("m", "x")}},
	} {
		f.Add(message(f, seed))
	}

	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})

	together, all := newDoor(f, fuzzed, ChargeTogether), newDoor(f, fuzzed, ChargeAll)

	f.Fuzz(func(t *testing.T, wire []byte) {
		var known rlsv3.RateLimitRequest

		readable := proto.Unmarshal(wire, &known) == nil

		var own request
		if fault := own.read(wire); fault == nil && readable {
			compare(t, &own, &known)
		}

		for _, door := range []*Door{together, all} {
			response, err := ask(door, wire)

			switch {
			case err == nil:
				if readable && len(response.GetStatuses()) != len(known.GetDescriptors()) {
					t.Errorf("%d statuses for %d descriptors", len(response.GetStatuses()), len(known.GetDescriptors()))
				}
			case status.Code(err) != codes.InvalidArgument:
				t.Errorf("%v", err)
			}
		}
	})
}

// compare holds what was read by hand to what the generated types read.
func compare(t *testing.T, own *request, known *rlsv3.RateLimitRequest) {
	t.Helper()

	if own.domain != known.GetDomain() || own.hits != int64(known.GetHitsAddend()) || len(own.descriptors) != len(known.GetDescriptors()) {
		t.Fatalf("got %+v, want %v", own, known)
	}

	for i, want := range known.GetDescriptors() {
		req, d := own.of(i), own.descriptors[i]

		if len(req.Entries) != len(want.GetEntries()) || d.negative != want.GetIsNegativeHits() || d.counts != (want.GetHitsAddend() != nil) ||
			d.hits != int64(min(want.GetHitsAddend().GetValue(), rule.MaxCost)) {
			t.Fatalf("descriptor %d: got %+v, want %v", i, d, want)
		}

		if o := want.GetLimit(); d.limit.set != (o != nil) || o != nil && (d.limit.requests != int64(o.GetRequestsPerUnit()) ||
			int32(d.limit.unit) != int32(o.GetUnit()) || d.limit.multiplier != int64(o.GetUnitMultiplier().GetValue())) {
			t.Fatalf("descriptor %d: got the limit %+v, want %v", i, d.limit, o)
		}

		for j, entry := range want.GetEntries() {
			if req.Entries[j] != (rule.Entry{Key: entry.GetKey(), Value: entry.GetValue()}) {
				t.Fatalf("entry %d of %d: got %v, want %v", j, i, req.Entries[j], entry)
			}
		}
	}
}

func TestBoundsOfARequest(t *testing.T) {
	door := newDoor(t, fuzzed, ChargeTogether)
	many := func(n, entries int) *rlsv3.RateLimitRequest {
		msg := &rlsv3.RateLimitRequest{Domain: "d"}
		for range n {
			msg.Descriptors = append(msg.Descriptors, described(strings.Split(strings.Repeat("k,v,", entries), ",")...))
		}

		return msg
	}

	for name, c := range map[string]struct {
		msg  *rlsv3.RateLimitRequest
		want string // the field that the error names; "" for none
	}{
		"as many descriptors as fit": {many(maxDescriptors, 1), ""},
		"too many descriptors":       {many(maxDescriptors+1, 1), "descriptors"},
		"as many entries as fit":     {many(1, maxEntries), ""},
		"too many entries":           {many(1, maxEntries+1), "the request"},
		"a long value":               {&rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{described("k", strings.Repeat("v", 60_000))}}, ""},
		"a longer value":             {&rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{described("k", strings.Repeat("v", 70_000))}}, "the request"},
	} {
		switch _, err := ask(door, message(t, c.msg)); {
		case c.want == "" && err != nil, c.want != "" && (status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want an error that names %q", name, err, c.want)
		}
	}
}

// hanging is a source that has rules, and never answers an ask.
type hanging struct{ rules *rule.Set }

func (h hanging) Acquire(ctx context.Context, _ *ledger.Batch) (*ledger.Answers, error) {
	<-ctx.Done()

	return nil, ctx.Err()
}

func (h hanging) Watch(ctx context.Context, _ uint64, apply func(*rule.Set) error) error {
	if err := apply(h.rules); err != nil {
		return err
	}

	<-ctx.Done()

	return ctx.Err()
}

func TestAStatusNamesNoKeyAndMetadataNamesTheShadow(t *testing.T) {
	door := newDoor(t, `rules:
  - {id: dark, scope: {domain: d, entries: [k]}, mode: shadow, limit: 1, window: 1h}
  - {id: open, scope: {domain: d, entries: [k]}, keyBy: descriptor:k, secret: true, limit: 2, window: 1h}`, ChargeTogether)
	wire := message(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{described("k", "hush-hush")}})

	for i, want := range []string{"", "dark", ""} {
		response, err := ask(door, wire)
		if err != nil {
			t.Fatal(err)
		}

		if got := response.GetDynamicMetadata().GetFields()["shadowDenied"].GetStringValue(); got != want {
			t.Errorf("request %d: shadowDenied is %q, want %q", i, got, want)
		}

		if bytes.Contains(message(t, response), []byte("hush")) {
			t.Errorf("the answer says the key: %v", response)
		}
	}
}

// Of several descriptors that are refused, the answer speaks of the one that waiting never helps.
func TestAnAnswerSpeaksOfTheLongestRefusal(t *testing.T) {
	for _, charge := range []Charge{ChargeTogether, ChargeAll} {
		door := newDoor(t, `rules:
  - {id: wait, scope: {domain: d, entries: [k]}, limit: 1, window: 1h}
  - {id: never, scope: {domain: d, entries: [n]}, block: true}`, charge)

		if _, err := ask(door, message(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{described("k", "v")}})); err != nil {
			t.Fatal(err)
		}

		for _, order := range [][2]string{{"k", "n"}, {"n", "k"}} {
			response, err := ask(door, message(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{
				described(order[0], "v"), described(order[1], "v"),
			}}))
			if err != nil {
				t.Fatal(err)
			}

			if got := response.GetDynamicMetadata().GetFields()["rule"].GetStringValue(); got != "never" {
				t.Errorf("%v, %v: the answer speaks of %q", charge, order, got)
			}
		}
	}
}

// A first rule is tried in shadow mode, alone: then the metadata are all that is said beside OK.
func TestMetadataNamesAShadowThatIsAlone(t *testing.T) {
	door := newDoor(t, `rules: [{id: dark, scope: {domain: d, entries: [k]}, mode: shadow, limit: 1, window: 1h}]`, ChargeTogether)
	wire := message(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{described("k", "v")}})

	for i, want := range []string{"", "dark"} {
		response, err := ask(door, wire)
		if err != nil {
			t.Fatal(err)
		}

		fields := response.GetDynamicMetadata().GetFields()
		if got := fields["shadowDenied"].GetStringValue(); got != want || fields["rule"] != nil {
			t.Errorf("request %d: metadata %v, want shadowDenied %q and no rule", i, fields, want)
		}

		if response.GetOverallCode() != rlsv3.RateLimitResponse_OK || len(response.GetResponseHeadersToAdd()) > 0 {
			t.Errorf("request %d: a rule in shadow mode is heard of: %v", i, response)
		}
	}
}

// A fail-closed rule without a coordinator refuses, and says why; one that fails open allows; both within the deadline.
func TestAStoreThatHangs(t *testing.T) {
	set, err := rule.Parse("rules", []byte(`rules:
  - {id: closed, scope: {domain: d, entries: [c]}, keyBy: descriptor:c, limit: 5, window: 1h, onUnavailable: deny}
  - {id: open, scope: {domain: d, entries: [o]}, keyBy: descriptor:o, limit: 5, window: 1h, onUnavailable: allow}`))
	if err != nil {
		t.Fatal(err)
	}

	limiter, err := leaseway.Over(t.Context(), hanging{set.Next(nil, 1)}, leaseway.WithDeadline(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = limiter.Close(context.Background()) }()

	door := New(limiter, Config{})

	for _, c := range []struct {
		descriptors []*commonv3.RateLimitDescriptor
		want        rlsv3.RateLimitResponse_Code
	}{
		{[]*commonv3.RateLimitDescriptor{described("o", "x")}, rlsv3.RateLimitResponse_OK},
		{[]*commonv3.RateLimitDescriptor{described("c", "x")}, rlsv3.RateLimitResponse_OVER_LIMIT},
		{[]*commonv3.RateLimitDescriptor{described("o", "y"), described("c", "y")}, rlsv3.RateLimitResponse_OVER_LIMIT},
	} {
		response, err := ask(door, message(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: c.descriptors}))
		if err != nil || response.GetOverallCode() != c.want {
			t.Errorf("%v: got %v, %v, want %v", c.descriptors, response, err, c.want)
		}

		if refused := c.want != rlsv3.RateLimitResponse_OK; refused && !bytes.Contains(response.GetRawBody(), []byte(`"unavailable"`)) {
			t.Errorf("%v: the body does not say why: %s", c.descriptors, response.GetRawBody())
		}

		told, want := response.GetDynamicMetadata().GetFields()["status"].GetStringValue(), ""
		if c.want != rlsv3.RateLimitResponse_OK {
			want = "503"
		}

		if told != want {
			t.Errorf("%v: the metadata say the status %q, want %q", c.descriptors, told, want)
		}
	}
}

// A server that sheds refuses as for an outage: an answer with 503 for the client and a time to come back, and no error of gRPC.
func TestASheddingServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := rule.Parse("rules", []byte(`{rules: [], shedders: {worker: {}}, classes: [{class: test}]}`))
		if err != nil {
			t.Fatal(err)
		}

		limiter, err := leaseway.Embedded(set, leaseway.WithSignal("full", func() float64 { return 1 }))
		if err != nil {
			t.Fatal(err)
		}

		time.Sleep(time.Minute)

		for _, charge := range Charges() {
			door := New(limiter, Config{Charge: charge})

			response, err := ask(door, message(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{described("k", "v")}}))
			if err != nil || response.GetOverallCode() != rlsv3.RateLimitResponse_OVER_LIMIT ||
				response.GetDynamicMetadata().GetFields()["status"].GetStringValue() != "503" || !bytes.Contains(response.GetRawBody(), []byte(`"shed_worker"`)) {
				t.Errorf("%s: got %v, %v", charge, response, err)
			}

			if !slices.ContainsFunc(response.GetResponseHeadersToAdd(), func(h *corev3.HeaderValue) bool { return h.GetKey() == "retry-after" && h.GetValue() != "" }) {
				t.Errorf("%s: no time to come back in %v", charge, response.GetResponseHeadersToAdd())
			}
		}

		if err := limiter.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A call whose caller left is answered by that, and charged nothing.
func TestACallThatIsCancelledIsNotCharged(t *testing.T) {
	door := newDoor(t, "rules: [{id: a, limit: 5, window: 1h}]", ChargeTogether)
	gone, cancel := context.WithCancel(t.Context())
	cancel()

	c := &call{door: door}
	_ = c.Hear(message(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{described("k", "v")}}))

	if _, err := c.answer(gone); status.Code(err) != codes.Canceled {
		t.Errorf("got %v, want CANCELED", err)
	}

	if d := door.limiter.Decide(t.Context(), leaseway.Request{Method: http.MethodGet, Peek: true}); d.Remaining < 4 {
		t.Errorf("%d left, want what was there", d.Remaining)
	}
}

// What descriptors took that are refused for their delay is given back once, even if their caller left meanwhile.
func TestADelayedCallThatIsCancelledIsGivenBackOnce(t *testing.T) {
	for _, charge := range Charges() {
		door := newDoor(t, `rules:
  - {id: leaky, keyBy: descriptor:k, algorithm: leaky_bucket, limit: 5, window: 1h}
  - {id: plain, keyBy: descriptor:l, limit: 5, window: 1h}`, charge)
		gone, cancel := context.WithCancel(t.Context())

		left := func(name string) int64 {
			return door.limiter.Decide(t.Context(), leaseway.Request{Descriptors: map[string]string{name: "v"}, Peek: true}).Remaining
		}

		if d := door.limiter.Decide(t.Context(), leaseway.Request{Descriptors: map[string]string{"k": "v", "l": "v"}, Cost: 3}); !d.Allowed {
			t.Fatalf("the first got %+v", d)
		}

		cancel()

		c := &call{door: door}
		_ = c.Hear(message(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{described("k", "v"), described("l", "v")}}))

		if _, err := c.answer(gone); status.Code(err) != codes.Canceled {
			t.Errorf("got %v, want CANCELED", err)
		}

		if k, l := left("k"), left("l"); k != 2 || l != 2 {
			t.Errorf("%s: %d and %d left of 5 after 3 of each", charge, k, l)
		}
	}
}

// Many descriptors wait for a store that hangs no longer than one does: none asks it after the others have found out.
func TestManyDescriptorsWaitOnce(t *testing.T) {
	for _, charge := range Charges() {
		synctest.Test(t, func(t *testing.T) {
			set, err := rule.Parse("rules", []byte(`rules:
  - {id: closed, scope: {domain: d, entries: [c]}, keyBy: descriptor:c, limit: 5, window: 1h, onUnavailable: deny}
  - {id: open, scope: {domain: d, entries: [o]}, keyBy: descriptor:o, limit: 5, window: 1h, onUnavailable: allow}`))
			if err != nil {
				t.Fatal(err)
			}

			limiter, err := leaseway.Over(t.Context(), hanging{set.Next(nil, 1)}, leaseway.WithDeadline(20*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}

			defer func() { _ = limiter.Close(context.Background()) }()

			msg := &rlsv3.RateLimitRequest{Domain: "d"}
			for i := range maxDescriptors {
				msg.Descriptors = append(msg.Descriptors, described([]string{"o", "c"}[i%2], strconv.Itoa(i)))
			}

			began := time.Now()

			response, err := ask(New(limiter, Config{Charge: charge}), message(t, msg))
			if err != nil || response.GetOverallCode() != rlsv3.RateLimitResponse_OVER_LIMIT {
				t.Errorf("%s: got %v, %v", charge, response.GetOverallCode(), err)
			}

			if took := time.Since(began); took > 40*time.Millisecond {
				t.Errorf("%s: it took %v", charge, took)
			}
		})
	}
}
