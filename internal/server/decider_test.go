package server

import (
	"context"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/internal/rpc"
	"github.com/leaseway/leaseway/rule"
)

// Over gRPC, too, a delay is refused unless the caller says that it holds requests.
func TestDelaysOverGRPC(t *testing.T) {
	set, err := rule.Parse("rules", []byte("rules: [{id: paced, algorithm: leaky_bucket, limit: 5, window: 1h}]"))
	if err != nil {
		t.Fatal(err)
	}

	limiter, err := leaseway.Embedded(set)
	if err != nil {
		t.Fatal(err)
	}

	defer limiter.Close(context.Background())

	d := decider{door: check.New(limiter)}
	one := func(passDelay bool) rpc.Verdict {
		verdict, err := d.CheckRule(t.Context(), rpc.RuleQuestion{Rule: "paced", Cost: 1, PassDelay: passDelay})
		if err != nil {
			t.Fatal(err)
		}

		return verdict
	}
	all := func(passDelay bool) rpc.Verdict { return d.Check(t.Context(), rpc.Question{PassDelay: passDelay}) }

	if first := one(false); !first.Allowed || first.Delay != 0 {
		t.Fatalf("the first request: %+v", first)
	}

	for name, ask := range map[string]func(bool) rpc.Verdict{"of a rule": one, "of all rules": all} {
		refused := ask(false)
		if refused.Allowed || refused.Reason != "delayed" || refused.Delay != 0 || refused.RetryAfter < 10*time.Minute {
			t.Errorf("%s, to one that cannot hold: %+v", name, refused)
		}

		held := ask(true)
		if !held.Allowed || held.Delay < 10*time.Minute || held.Remaining != refused.Remaining-1 {
			t.Errorf("%s, to one that holds: %+v", name, held)
		}
	}
}
