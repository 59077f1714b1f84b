package doctor

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/rpc"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

const rulesText = "rules: [{id: a, keyBy: user, limit: 10, window: 1m}]"

func parse(t *testing.T, text string) *rule.Set {
	t.Helper()

	set, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}

	return set
}

// signing returns a private key that is the same in every run.
func signing(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) ed25519.PublicKey {
	key, _ := signing(n).Public().(ed25519.PublicKey) // which it is

	return key
}

func newStore(t *testing.T) store.Store {
	t.Helper()

	kept, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = kept.Close(context.Background()) })

	return kept
}

// token lets one token in.
type token string

func (k token) Allows(got string) bool { return string(k) == got }

// serve starts a coordinator, and returns its address.
func serve(t *testing.T, kept store.Store, rules string, config rpc.ServerConfig) string {
	t.Helper()

	book := coordinator.NewBook(nil)
	if _, err := book.Apply(parse(t, rules)); err != nil {
		t.Fatal(err)
	}

	c, err := coordinator.New(coordinator.Config{Store: kept, Book: book})
	if err != nil {
		t.Fatal(err)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	config.Coordinator = c
	server := rpc.NewServer(config)

	var work sync.WaitGroup

	work.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop(context.Background())
		work.Wait()
	})

	return listener.Addr().String()
}

// Whoever looks is no holder: a share in an outage is a part of those that live.
func TestLookingIsNoHolding(t *testing.T) {
	kept := newStore(t)
	address := serve(t, kept, rulesText, rpc.ServerConfig{})

	for range 3 {
		found := Coordinators(t.Context(), &Fleet{Remote: rpc.Config{URLs: []string{address}, Holder: 7, AllowUnsigned: true}})
		if Worst(found) == Bad {
			t.Fatalf("%+v", found)
		}
	}

	if live, err := kept.Beat(t.Context(), nil, 0); err != nil || live != 0 {
		t.Errorf("%d holders live (%v)", live, err)
	}
}

func TestCoordinators(t *testing.T) {
	kept, other := newStore(t), newStore(t)

	signer, err := rpc.NewSigner(signing(1))
	if err != nil {
		t.Fatal(err)
	}

	good := serve(t, kept, rulesText, rpc.ServerConfig{Signer: signer})
	twin := serve(t, kept, rulesText, rpc.ServerConfig{Signer: signer})
	apart := serve(t, other, rulesText, rpc.ServerConfig{Signer: signer})
	changed := serve(t, kept, "rules: [{id: a, keyBy: user, limit: 11, window: 1m}]", rpc.ServerConfig{Signer: signer})
	locked := serve(t, kept, rulesText, rpc.ServerConfig{Signer: signer, Tokens: token("secret")})

	for name, test := range map[string]struct {
		urls  []string
		key   byte // that is pinned; 0 for none
		state State
		check string
		says  string
	}{
		"two that agree":      {[]string{good, twin}, 1, OK, checkRules, "1 rule, the same at 2 coordinators"},
		"a key that fits":     {[]string{good}, 1, OK, checkSignature, "signed"},
		"the same data":       {[]string{good}, 1, OK, checkStore, "it counts in"},
		"no key":              {[]string{good}, 0, Warn, checkSignature, "no key is pinned"},
		"another key":         {[]string{good}, 2, Bad, checkSignature, "another key"},
		"other data":          {[]string{apart}, 1, Bad, checkStore, "and this Redis has"},
		"other rules":         {[]string{changed}, 1, Bad, checkRules, "are not those of --rules"},
		"nobody":              {[]string{"127.0.0.1:1"}, 1, Bad, checkCoordinator, "does not answer"},
		"rules of nobody":     {[]string{"127.0.0.1:1"}, 1, Warn, checkRules, "no coordinator sent"},
		"a token is asked":    {[]string{locked}, 1, Bad, checkCoordinator, "token"},
		"what is no address":  {[]string{"a:b:c"}, 1, Bad, checkCoordinator, "a:b:c"},
		"one of two is wrong": {[]string{good, apart}, 1, OK, checkStore, "it counts in"},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := &Fleet{
				Remote: rpc.Config{URLs: test.urls, Holder: 7, AllowUnsigned: test.key == 0, Timeout: 2 * time.Second},
				Rules:  parse(t, rulesText), Store: kept.ID(),
			}
			if test.key != 0 {
				fleet.Remote.Keys = []ed25519.PublicKey{public(test.key)}
			}

			expect(t, Coordinators(t.Context(), fleet), Finding{State: test.state, Check: test.check, Says: test.says})
		})
	}

	// Without a document they are compared with each other.
	fleet := &Fleet{Remote: rpc.Config{URLs: []string{good, changed}, Holder: 7, Keys: []ed25519.PublicKey{public(1)}}}
	expect(t, Coordinators(t.Context(), fleet), Finding{State: Bad, Check: checkRules, Says: "are not those of " + good})

	// And without a Redis, so is where they count.
	fleet.Remote.URLs = []string{good, apart}
	expect(t, Coordinators(t.Context(), fleet), Finding{State: Bad, Check: checkStore, Says: "and " + good + " has"})

	fleet.Remote.URLs = []string{good, twin}
	if found := Coordinators(t.Context(), fleet); Worst(found) != OK {
		t.Errorf("two that count in one Redis: %+v", found)
	}

	fleet = &Fleet{Remote: rpc.Config{URLs: []string{"127.0.0.1:1"}, Holder: 7, Keys: []ed25519.PublicKey{public(1)}}}
	expect(t, Coordinators(t.Context(), fleet), Finding{State: Warn, Check: checkRules, Says: "no coordinator sent"})
}
