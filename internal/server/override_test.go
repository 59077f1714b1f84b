package server

import (
	"net/http"
	"testing"

	"google.golang.org/protobuf/proto"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

// terms are what a holder is told of a key, by an ask of its own.
func (r *running) terms(t *testing.T, seq uint64, key string) *leasewayv1.Terms {
	t.Helper()

	resp, err := leasewayv1.NewCoordinatorServiceClient(r.dial(t, nil)).Acquire(t.Context(), &leasewayv1.AcquireRequest{
		Holder: 9, Seq: seq, Asks: []*leasewayv1.KeyAsk{{Rule: "things", Key: []byte(key), RaiseTo: 1}},
	})
	must(t, err)

	answer := &leasewayv1.Answer{}
	must(t, proto.Unmarshal(resp.GetEnvelope().GetBody(), answer))

	if len(answer.GetTerms()) == 0 {
		t.Fatalf("no terms in %v", answer)
	}

	return answer.GetTerms()[0]
}

// All that was negotiated for a key is what its holders lease by; what was not said is the rule's.
func TestWhatWasNegotiatedIsWhatHoldersGet(t *testing.T) {
	r := start(t, "--rules-seed", file(t, thingsRules))
	plain := r.terms(t, 1, "ada")

	r.want(t, "PUT /admin/rules/things/overrides", `{"key": "ada", "limit": 500, "burst": 800, "leaseTtl": "2s"}`,
		expected{http.StatusOK, `"count":1`})

	seq := uint64(1)
	eventually(t, "the burst is the override's", func() bool {
		seq++

		return r.terms(t, seq, "ada").GetBurst() == 800
	})

	got := r.terms(t, seq+1, "ada")
	if got.GetTtlUs() != 2_000_000 || got.GetRevision() == 0 || got.GetPeriodUs()*plain.GetTokens()*5 != plain.GetPeriodUs()*got.GetTokens() {
		t.Errorf("got %v, beside the rule's %v: want a lease of 2 s and five times the rate", got, plain)
	}

	r.want(t, "PUT /admin/rules/things/overrides", `{"key": "ada", "limit": 500}`, expected{http.StatusOK, `"count":1`})

	seq++
	eventually(t, "the burst is the limit again", func() bool {
		seq++

		return r.terms(t, seq, "ada").GetBurst() == 500
	})

	if got := r.terms(t, seq+1, "ada"); got.GetTtlUs() != plain.GetTtlUs() {
		t.Errorf("the lease lives for %d µs, want the rule's %d", got.GetTtlUs(), plain.GetTtlUs())
	}
}
