package rpc

import (
	"context"
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// forger is a server that answers honestly and then changes the answer.
type forger struct {
	*coordinatorHandler

	change func(answer *leasewayv1.Answer, env *leasewayv1.Envelope) *leasewayv1.Envelope
}

func (f *forger) Acquire(ctx context.Context, req *leasewayv1.AcquireRequest) (*leasewayv1.AcquireResponse, error) {
	resp, err := f.honest(ctx, req)
	if err != nil {
		return nil, err
	}

	answer := &leasewayv1.Answer{}
	if err := proto.Unmarshal(resp.GetEnvelope().GetBody(), answer); err != nil {
		return nil, err
	}

	resp.Envelope = f.change(answer, resp.GetEnvelope())

	return resp, nil
}

// honest is the answer as it should be, in generated messages.
func (f *forger) honest(ctx context.Context, req *leasewayv1.AcquireRequest) (*leasewayv1.AcquireResponse, error) {
	message, err := proto.Marshal(req)
	if err != nil {
		return nil, err
	}

	x, _ := newExchange().(*exchange)
	if err := x.hear(message); err != nil {
		return nil, err
	}

	sealed, err := f.answer(ctx, x)
	if err != nil {
		return nil, err
	}

	resp := &leasewayv1.AcquireResponse{}

	return resp, proto.Unmarshal(sealed, resp)
}

// serveForged starts a server whose CoordinatorService is the forger's.
func serveForged(t *testing.T, forge *forger) *running {
	t.Helper()

	forge.coordinatorHandler = newCoordinatorHandler(newCoordinator(t, newStore(t), newBook(t)), signer(t, 1))
	t.Cleanup(forge.stop)

	return serveService(t, forge)
}

func TestAnswersThatAreNotBelieved(t *testing.T) {
	resign := func(change func(*leasewayv1.Answer)) func(*leasewayv1.Answer, *leasewayv1.Envelope) *leasewayv1.Envelope {
		return func(answer *leasewayv1.Answer, _ *leasewayv1.Envelope) *leasewayv1.Envelope {
			change(answer)

			env, err := signer(t, 1).seal(answerContext, answer)
			if err != nil {
				t.Error(err)
			}

			return env
		}
	}

	var recorded *leasewayv1.Envelope

	for name, c := range map[string]struct {
		want   Cause
		change func(*leasewayv1.Answer, *leasewayv1.Envelope) *leasewayv1.Envelope
	}{
		"a changed body": {CauseSignature, func(a *leasewayv1.Answer, env *leasewayv1.Envelope) *leasewayv1.Envelope {
			a.Keys[0].Granted = 1_000_000
			env.Body, _ = proto.Marshal(a)

			return env
		}},
		"no signature": {CauseSignature, func(_ *leasewayv1.Answer, env *leasewayv1.Envelope) *leasewayv1.Envelope {
			return &leasewayv1.Envelope{Body: env.GetBody()}
		}},
		"another key": {CauseKey, func(a *leasewayv1.Answer, _ *leasewayv1.Envelope) *leasewayv1.Envelope {
			env, _ := signer(t, 9).seal(answerContext, a)

			return env
		}},
		"a replayed answer": {CauseForeign, func(_ *leasewayv1.Answer, env *leasewayv1.Envelope) *leasewayv1.Envelope {
			if recorded == nil {
				recorded = env
			}

			return recorded
		}},
		"another holder's answer": {CauseForeign, resign(func(a *leasewayv1.Answer) { a.Holder++ })},
		"no envelope":             {CauseMalformed, func(*leasewayv1.Answer, *leasewayv1.Envelope) *leasewayv1.Envelope { return nil }},
		"a key less":              {CauseMalformed, resign(func(a *leasewayv1.Answer) { a.Keys = nil })},
		"older rules":             {CauseOlderRules, resign(func(a *leasewayv1.Answer) { a.RulesVersion = 1 })},
		// A lease of 1 µs has ended before its answer can come.
		"an answer after its leases": {CauseExpired, resign(func(a *leasewayv1.Answer) { a.Terms[0].TtlUs, a.Keys[0].TtlUs = 1, 1 })},
	} {
		t.Run(name, func(t *testing.T) {
			recorded = nil
			s := serveForged(t, &forger{change: c.change})
			client := dialTo(t, nil, s)
			client.learn(2)

			n := &calls{}

			if name == "a replayed answer" { // the first time it is the right one
				acquire(t, client, n.take("u1"))
			}

			_, err := client.Acquire(t.Context(), n.take("u1"))

			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Cause != c.want || refused.Replica != client.replicas[0].url {
				t.Fatalf("error %v, want cause %v", err, c.want)
			}

			stats := client.Stats()
			for _, got := range stats.Refused {
				if want := got.Cause == c.want; (got.Count == 1) != want || got.Count > 1 {
					t.Errorf("%d refused for %v", got.Count, got.Cause)
				}
			}

			if stats.Replicas[0].Failures != 1 {
				t.Error("the coordinator's breaker did not hear of it")
			}
		})
	}
}

func TestAForgedValueCostsOnlyItsKey(t *testing.T) {
	s := serveForged(t, &forger{change: func(a *leasewayv1.Answer, _ *leasewayv1.Envelope) *leasewayv1.Envelope {
		a.Keys[0].Granted = math.MaxInt64
		env, _ := signer(t, 1).seal(answerContext, a)

		return env
	}})
	c := dialTo(t, nil, s)
	answers := acquire(t, c, (&calls{}).take("u1", "u2"))

	if answers.Keys[0].Code != ledger.KeyUnavailable || answers.Keys[1].Code != ledger.KeyOK || c.Stats().Refused[CauseValue].Count != 1 {
		t.Errorf("answers %+v, refused %+v", answers.Keys, c.Stats().Refused)
	}
}

// A forged answer of one coordinator costs a try, not the call.
func TestAForgerIsLeftForAnHonestCoordinator(t *testing.T) {
	forge := &forger{change: func(_ *leasewayv1.Answer, env *leasewayv1.Envelope) *leasewayv1.Envelope {
		return &leasewayv1.Envelope{Body: env.GetBody()}
	}}
	bad := serveForged(t, forge)
	good := serve(t, ServerConfig{Coordinator: forge.coordinator, Signer: signer(t, 1)})
	c := dialTo(t, nil, bad, good)

	c.begin(0)

	if answers := acquire(t, c, (&calls{}).take("u1")); answers.Keys[0].Answer.Taken != 1 {
		t.Errorf("answer %+v", answers.Keys[0])
	}
}

// behind is a coordinator that has older rules than its holders, and says so.
type behind struct{ Coordinator }

func (behind) Acquire(_ context.Context, batch *ledger.Batch) (*ledger.Answers, error) {
	answers := &ledger.Answers{Store: 1, Live: 1, Version: 5}
	for range batch.Asks {
		answers.Keys = append(answers.Keys, ledger.KeyAnswer{Code: ledger.KeyBehind})
	}

	return answers, nil
}

func (behind) Watch(ctx context.Context, _ uint64, _ func(*rule.Set) error) error {
	<-ctx.Done()

	return ctx.Err()
}

func TestACoordinatorThatIsBehindIsHeard(t *testing.T) {
	c := dialTo(t, nil, serve(t, ServerConfig{Coordinator: behind{}, Signer: signer(t, 1)}))
	batch := (&calls{}).take("u1")
	batch.Version = 9

	if answers := acquire(t, c, batch); answers.Keys[0].Code != ledger.KeyBehind {
		t.Errorf("answers %+v", answers)
	}
}

func TestCausesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for c := range causes {
		seen[Cause(c).String()] = true
	}

	if len(seen) != causes || seen["unknown"] || seen[""] || Cause(causes).String() != "unknown" {
		t.Errorf("names %v", seen)
	}
}
