package leaseway_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
)

// Whom rules in shadow mode would have refused, by rates and by what is in flight, is known by key and how often; rules that are
// enforced, and requests that only look, leave nothing.
func TestWhoWouldHaveBeenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := leaseway.Embedded(parsedRules(t, `rules:
  - {id: rates, keyBy: user, limit: 2, window: 1h, mode: shadow}
  - {id: keys, keyBy: apikey, limit: 1, window: 1h, mode: shadow}
  - {id: slots, keyBy: ip, algorithm: concurrency, limit: 1, mode: shadow}
  - {id: real, keyBy: user, limit: 5, window: 1h}
`))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())

		send := func(req leaseway.Request, times int) {
			for range times {
				l.Decide(t.Context(), req)
			}
		}

		send(leaseway.Request{User: "ann"}, 9) // five of nine are admitted, and three of these above 2
		send(leaseway.Request{User: "bob"}, 3)
		send(leaseway.Request{User: "bob", Peek: true}, 3)
		send(leaseway.Request{APIKey: "sk_live_1"}, 2)
		send(leaseway.Request{IP: netip.MustParseAddr("192.0.2.1")}, 3)

		var got []string

		for _, k := range l.ShadowKeys(10) {
			if k.Over != 0 {
				t.Errorf("%+v may be too high", k)
			}

			got = append(got, fmt.Sprintf("%s %.7s %d", k.Rule, k.Key, k.Refused))
		}

		want := "rates ann 3, rates bob 1, keys sha256: 1, slots 192.0.2 2"
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("got  %s\nwant %s", all, want)
		}

		if n := len(l.ShadowKeys(1)); n != 3 {
			t.Errorf("%d at the top of three rules", n)
		}
	})
}

// Shedders say who it would have been by the caller, of whom no API key is shown.
func TestWhomSheddersWouldHaveRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := leaseway.Embedded(parsedRules(t, `{rules: [], shedders: {worker: {mode: shadow}, fleet: {mode: shadow, capacity: 1}}}`),
			leaseway.WithSignal("full", func() float64 { return 1 }))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())

		time.Sleep(20 * time.Second)

		for _, req := range []leaseway.Request{{APIKey: "sk_live_1"}, {User: "ann"}, {User: "ann"}, {User: "ann", Peek: true}, {}} {
			req.Finishes = true

			if d := l.Decide(t.Context(), req); !d.Allowed {
				t.Errorf("a shadow refused %+v", d)
			}
		}

		by := map[string]int64{}
		for _, k := range l.ShadowKeys(10) {
			by[fmt.Sprintf("%s %.7s", k.Shedder, k.Key)] = k.Refused
		}

		if len(by) < 5 || by["worker ann"] != 2 || by["fleet ann"] != 2 || by["worker sha256:"] != 1 || by["worker "] != 1 {
			t.Errorf("got %v", by)
		}
	})
}

// However many there are, so many are kept, and the most frequent is among them; by many requests at once.
func TestShadowKeysAreBounded(t *testing.T) {
	l := embedded(t, "rules: [{id: r, keyBy: user, limit: 1, window: 1h, mode: shadow}]")

	var wg sync.WaitGroup

	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				l.Decide(t.Context(), leaseway.Request{User: "often"})

				for range 2 {
					l.Decide(t.Context(), leaseway.Request{User: fmt.Sprint(g, "-", i)})
				}
			}
		})
	}

	wg.Wait()

	keys := l.ShadowKeys(1000)
	if len(keys) != 100 || keys[0].Key != "often" || keys[0].Refused-keys[0].Over > 7999 || keys[0].Refused < 7999 {
		t.Errorf("%d keys, of which the first is %+v", len(keys), keys[0])
	}

	if l.ShadowKeys(0) != nil {
		t.Error("the top none are some")
	}
}

// From shadow to enforce the count stays; a rule that is gone has none.
func TestShadowKeysOfARuleThatIsGone(t *testing.T) {
	l := newStepped(t, "rules: [{id: r, limit: 1, window: 1h, mode: shadow}]")
	for range 3 {
		l.Decide(t.Context(), leaseway.Request{})
	}

	l.rules("rules: [{id: r, limit: 1, window: 1h}]")

	if keys := l.ShadowKeys(1); len(keys) != 1 || keys[0].Refused != 2 {
		t.Errorf("when it is enforced: %+v", keys)
	}

	l.rules("rules: [{id: other, limit: 1, window: 1h}]")

	if keys := l.ShadowKeys(1); len(keys) != 0 {
		t.Errorf("when it is gone: %+v", keys)
	}
}
