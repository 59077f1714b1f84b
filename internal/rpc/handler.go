package rpc

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// Coordinator is what a Server stands in front of.
type Coordinator interface {
	// Acquire applies a batch; an error means that nothing is known of any ask.
	Acquire(ctx context.Context, batch *ledger.Batch) (*ledger.Answers, error)
	// Watch calls apply with the present rules and every newer set until ctx ends.
	Watch(ctx context.Context, known uint64, apply func(*rule.Set) error) error
	// WatchOverrides calls changed when overrides of some rules have changed, until ctx ends; no rules are all.
	WatchOverrides(ctx context.Context, changed func(rules []string)) error
}

// coordinatorHandler is CoordinatorService in front of a Coordinator.
type coordinatorHandler struct {
	leasewayv1.UnimplementedCoordinatorServiceServer

	coordinator Coordinator
	signer      *Signer
	stopping    context.Context //nolint:containedctx // it is the server's life: watchers go elsewhere when it ends
	stop        context.CancelFunc

	mu    sync.Mutex
	set   *rule.Set // the rules that were sent last,
	rules sent      // a WatchRulesResponse

	exchanges sync.Pool // of *exchange

	invalid, signatures, watchers atomic.Int64
}

// exchange is one call, with its memory for another when it is over. It is a receiver.
type exchange struct {
	batch  ledger.Batch
	reply  ledger.Answers
	fault  *fault
	wire   answersWire
	signed []byte
}

func newExchange() any {
	x := &exchange{}
	x.batch.Reply = &x.reply

	return x
}

// hear reads the call's request; see receiver.
func (x *exchange) hear(message []byte) (err error) {
	x.fault, err = readBatch(message, &x.batch)

	return err
}

func newCoordinatorHandler(coordinator Coordinator, signer *Signer) *coordinatorHandler {
	h := &coordinatorHandler{coordinator: coordinator, signer: signer, exchanges: sync.Pool{New: newExchange}}
	h.stopping, h.stop = context.WithCancel(context.Background())

	return h
}

// description is the service's, with a handler of Acquire that reads and writes its messages by itself.
func (h *coordinatorHandler) description() *grpc.ServiceDesc {
	desc := leasewayv1.CoordinatorService_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)

	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "Acquire" {
			desc.Methods[i].Handler = h.handle
		}
	}

	return &desc
}

// handle is Acquire's grpc.MethodHandler.
func (h *coordinatorHandler) handle(
	_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor, //nolint:revive // gRPC's order
) (any, error) {
	x, _ := h.exchanges.Get().(*exchange)
	if err := decode(x); err != nil {
		return nil, err
	}

	info := &grpc.UnaryServerInfo{Server: h, FullMethod: leasewayv1.CoordinatorService_Acquire_FullMethodName}

	return intercept(ctx, x, info, func(ctx context.Context, _ any) (any, error) { return h.answer(ctx, x) })
}

// answer answers one batch.
func (h *coordinatorHandler) answer(ctx context.Context, x *exchange) (sent, error) {
	batch := &x.batch
	if x.fault != nil {
		h.invalid.Add(1)

		return nil, x.fault.status()
	}

	answers, err := h.coordinator.Acquire(ctx, batch)

	switch {
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err() // nobody waits: spare the signature
	case err != nil:
		return nil, because(codes.Unavailable, reasonCoordinator, err.Error())
	}

	x.signed = x.wire.append(append(keep(x.signed), answerContext...), batch, answers)
	sealed := h.signer.appendResponse(make([]byte, 0, len(x.signed)+maxEnvelopeBytes), answerContext, x.signed)

	h.countSignature()
	h.exchanges.Put(x) // of a call that failed, something may still be at work

	return sealed, nil
}

// WatchRules streams the rules until the caller goes or the server stops.
func (h *coordinatorHandler) WatchRules(
	req *leasewayv1.WatchRulesRequest, stream grpc.ServerStreamingServer[leasewayv1.WatchRulesResponse],
) error {
	if len(req.GetName()) > maxName {
		return (&fault{"name", "has more than 256 bytes; send a shorter one"}).status()
	}

	defer h.watchers.Add(-1)

	if h.watchers.Add(1) > maxWatchers {
		return tooBusy("too many holders watch the rules here; watch another coordinator", maxComeBack)
	}

	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(h.stopping, func() {
		cancel(because(codes.Unavailable, reasonStopping, "the coordinator stops; watch another one"))
	})()

	var sending sync.Mutex // a stream takes one message at a time

	send := func(message any) error {
		sending.Lock()
		defer sending.Unlock()

		err := stream.SendMsg(message)
		if err != nil {
			cancel(err) // Watch goes on after an error of apply: the stream does not
		}

		return err
	}

	if req.GetOverrides() {
		defer h.tellOverrides(ctx, send, cancel)()
	}

	err := h.coordinator.Watch(ctx, req.GetKnownVersion(), func(set *rule.Set) error {
		rules, err := h.seal(set)
		if err != nil {
			cancel(err)

			return err
		}

		return send(rules)
	})

	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}

	if _, ok := status.FromError(err); ok {
		return err
	}

	return status.FromContextError(err).Err()
}

// seal signs a rule set and writes it, once for all watchers: it may have megabytes, and they may be thousands.
func (h *coordinatorHandler) seal(set *rule.Set) (sent, error) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.set == set {
		return h.rules, nil
	}

	env, err := h.signer.seal(rulesContext, &leasewayv1.Rules{Version: set.Version, Document: set.Marshal()})
	if err != nil {
		return nil, because(codes.Unavailable, reasonCoordinator, err.Error())
	}

	rules, err := proto.Marshal(&leasewayv1.WatchRulesResponse{Envelope: env})
	if err != nil {
		return nil, because(codes.Unavailable, reasonCoordinator, err.Error())
	}

	h.countSignature()
	h.set, h.rules = set, rules

	return rules, nil
}

func (h *coordinatorHandler) countSignature() {
	if h.signer != nil {
		h.signatures.Add(1)
	}
}
