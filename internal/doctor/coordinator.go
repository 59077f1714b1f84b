package doctor

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/leaseway/leaseway/internal/rpc"
	"github.com/leaseway/leaseway/rule"
)

// rulesWithin bounds how long a coordinator may take to send its rules.
const rulesWithin = 3 * time.Second

// A Fleet is what coordinators are compared with.
type Fleet struct {
	Remote rpc.Config
	Rules  *rule.Set // that they should have; nil if that is not known
	Store  uint64    // the data that they should count in; 0 if that is not known, and is that of the first to answer
	First  string    // whose data Store is; "" for that of the Redis that was looked at
}

// Coordinators looks at those that fleet names, each by itself.
func Coordinators(ctx context.Context, fleet *Fleet) []Finding {
	var all []Finding

	compared := *fleet // with what the first to answer has, where nothing else is known

	fleet = &compared
	sets := make([]*rule.Set, len(fleet.Remote.URLs))

	for i, url := range fleet.Remote.URLs {
		one := fleet.Remote
		one.URLs = []string{url}

		client, err := rpc.Dial(one)
		if err != nil {
			all = append(all, Finding{State: Bad, Check: checkCoordinator, Where: url, Says: err.Error(), Fix: "correct --coordinator"})

			continue
		}

		greeting := client.Greet(ctx)[0]
		all = append(all, judgeGreeting(fleet, &greeting)...)

		if fleet.Store == 0 && greeting.Err == nil { // without a Redis to compare with, all must count where the first does
			fleet.Store, fleet.First = greeting.Store, url
		}

		if greeting.Err == nil {
			sets[i] = rulesOf(ctx, client)
		}

		_ = client.Close() // nothing is under way
	}

	return append(all, judgeRules(fleet, sets)...)
}

// rulesOf returns the rules in force, nil if they do not come.
func rulesOf(ctx context.Context, client *rpc.Client) (got *rule.Set) {
	ctx, cancel := context.WithTimeout(ctx, rulesWithin)
	defer cancel()

	_ = client.Watch(ctx, 0, func(set *rule.Set) error {
		got = set

		cancel()

		return nil
	})

	return got
}

func judgeGreeting(fleet *Fleet, g *rpc.Greeting) []Finding {
	if g.Err != nil {
		f := Finding{
			State: Bad, Check: checkCoordinator, Where: g.URL, Says: "it does not answer: " + g.Err.Error(),
			Fix: "start it, or correct --coordinator",
		}

		switch g.Misfit {
		case rpc.MisfitToken:
			f.Says = "it does not know the token"
			f.Fix = "give --coordinator-token-file one of those in its --token-file, or made by leaseway token create --role holder"
		case rpc.MisfitKey:
			f.Check = checkSignature
			f.Says = "it signs with another key than those of --coordinator-key: holders believe nothing that it says"
			f.Fix = "give every coordinator the same --signing-key-file, and holders the public key that it logs at its start"
		case rpc.MisfitRole:
			f.Says, f.Fix = "it is no coordinator", "name the --grpc-listen of a server without --coordinator"
		case rpc.MisfitProtocol:
			f.Says, f.Fix = "it does not speak gRPC", "name the port of its --grpc-listen, not of --listen"
		case rpc.MisfitPlaintext:
			f.Says, f.Fix = "it does not speak TLS", "write grpc://…, or give it --tls-cert and --tls-key"
		case rpc.MisfitTLS:
			f.Says, f.Fix = "it speaks TLS", "write grpcs://…"
		case rpc.MisfitAuthority:
			f.Says, f.Fix = "nobody known vouches for its certificate", "name the authority's certificate by --coordinator-ca"
		case rpc.MisfitName:
			f.Fix = "call it by a name that is in its certificate"
		case rpc.MisfitCertificate:
			f.Fix = "show a certificate of an authority in its --tls-client-ca, by --tls-cert and --tls-key"
		case rpc.MisfitExpired:
			f.Fix = "renew its certificate, or the one shown to it, or set the clock"
		}

		return []Finding{f}
	}

	signed := Finding{State: OK, Check: checkSignature, Where: g.URL, Says: "its answers are signed with a key of --coordinator-key"}
	if len(fleet.Remote.Keys) == 0 {
		signed.State, signed.Says = Warn, "no key is pinned, so any signature is believed"
		signed.Fix = "add --coordinator-key with the public key that coordinators log at their start"
	}

	kept := Finding{State: OK, Check: checkStore, Where: g.URL, Says: fmt.Sprintf("it counts in the data %016x", g.Store)}
	if fleet.Store != 0 && fleet.Store != g.Store {
		kept.State = Bad
		kept.Says += fmt.Sprintf(", and %s has %016x: callers have their limits once at each",
			cmp.Or(fleet.First, "this Redis"), fleet.Store)
		kept.Fix = "give all coordinators the same --store and --store-prefix"
	}

	return []Finding{signed, kept}
}

// judgeRules compares what the coordinators have in force with each other, and with a document.
func judgeRules(fleet *Fleet, sets []*rule.Set) []Finding {
	r := report{check: checkRules}
	want, from := fleet.Rules, "--rules"
	count := 0

	for i, set := range sets {
		url := fleet.Remote.URLs[i]

		switch {
		case set == nil:
			continue // said already
		case want == nil:
			want, from = set, url
		case !sameRules(want, set):
			r.add(Bad, url, fmt.Sprintf("its rules (version %d) are not those of %s: for a key those hold that were applied last",
				set.Version, from),
				"give all coordinators the same rules, by one --rules file or one rule store")
		}

		count++
	}

	if count == 0 {
		r.add(Warn, "", "no coordinator sent its rules", "see the findings above")

		return r.list // want may be nil
	}

	return r.or("%s, the same at %s", several(len(want.Rules), "rule"), several(count, "coordinator"))
}

// sameRules reports whether two sets say the same, whatever their versions.
func sameRules(a, b *rule.Set) bool {
	return bytes.Equal(a.Next(nil, 0).Marshal(), b.Next(nil, 0).Marshal())
}
