package leasewaygrpc_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/leasewaygrpc"
	"github.com/leaseway/leaseway/rule"
)

// details are those of a refusal, by kind.
func details(t *testing.T, err error) (info *errdetails.ErrorInfo, retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	t.Helper()

	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}

	return info, retry, quota
}

func TestABudgetThatIsUsedUpIsResourceExhausted(t *testing.T) {
	conn := serve(t, leasewaygrpc.New(limiterOf(t, "rules: [{id: one, keyBy: apikey, limit: 1, window: 60s}]")))

	if _, err := call(t, conn, "hello", "x-api-key", "a"); err != nil {
		t.Fatal(err)
	}

	trailer, err := call(t, conn, "hello", "x-api-key", "a")
	if status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("got %v", err)
	}

	info, retry, quota := details(t, err)
	if info.GetReason() != "OVER_LIMIT" || info.GetDomain() != leasewaygrpc.Domain || info.GetMetadata()["rule"] != "one" {
		t.Errorf("ErrorInfo is %v", info)
	}

	if wait := retry.GetRetryDelay().AsDuration(); wait <= 59*time.Second || wait > time.Minute {
		t.Errorf("RetryInfo is %v", wait)
	}

	if v := quota.GetViolations(); len(v) != 1 || v[0].GetSubject() != "rule:one" {
		t.Errorf("QuotaFailure is %v", v)
	}

	if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || len(got[0]) != len("60000") {
		t.Errorf("the pushback is %v", got)
	}

	// Another caller has a budget of its own; a bearer token is a key, too; health checks have none.
	for _, md := range [][]string{{"x-api-key", "b"}, {"authorization", "Bearer c"}} {
		if _, err := call(t, conn, "hello", md...); err != nil {
			t.Errorf("%v: %v", md, err)
		}
	}

	for range 3 {
		if _, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
			t.Error(err)
		}
	}
}

// UNAVAILABLE is for the system's state, and INVALID_ARGUMENT for a call that is none; never UNKNOWN.
func TestEveryReasonHasItsCode(t *testing.T) {
	for reason, want := range map[leaseway.Reason]codes.Code{
		leaseway.ReasonOverLimit: codes.ResourceExhausted, leaseway.ReasonTooManyInFlight: codes.ResourceExhausted,
		leaseway.ReasonCostExceedsLimit: codes.ResourceExhausted, leaseway.ReasonBlocked: codes.ResourceExhausted,
		leaseway.ReasonMissingKey: codes.ResourceExhausted, leaseway.ReasonDelayed: codes.ResourceExhausted,
		leaseway.ReasonShedWorker: codes.Unavailable, leaseway.ReasonShedFleet: codes.Unavailable,
		leaseway.ReasonUnavailable: codes.Unavailable, leaseway.ReasonInvalid: codes.InvalidArgument,
	} {
		if got := leasewaygrpc.StatusCode(leaseway.Decision{Reason: reason}); got != want {
			t.Errorf("%v is %v, want %v", reason, got, want)
		}
	}
}

func TestAShedCallIsUnavailableAndSaysWhenToComeBack(t *testing.T) {
	limiter := limiterOf(t, "rules: []\nshedders: {fleet: {capacity: 1}}")
	limits := leasewaygrpc.New(limiter, leasewaygrpc.WithClasses(map[string]rule.Class{
		"/test.Echo/*": rule.ClassRead, streamMethod: rule.ClassCritical,
	}))
	conn := serve(t, limits)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	// A critical stream is counted and never refused; it leaves no room for reads.
	for range 2 {
		if err := exchange(openStream(ctx, t, conn), "hello"); err != nil {
			t.Fatal(err)
		}
	}

	trailer, err := call(t, conn, "hello")

	info, retry, quota := details(t, err)
	if status.Code(err) != codes.Unavailable || info.GetReason() != "SHED_FLEET" || retry.GetRetryDelay().AsDuration() <= 0 || quota != nil ||
		len(trailer.Get("grpc-retry-pushback-ms")) != 1 {
		t.Errorf("got %v with %v, %v, %v and %v", err, info, retry, quota, trailer)
	}
}

// The worker shedder of a server that is busy refuses as the fleet's does. Its level rises in virtual time.
func TestACallThatABusyServerSheds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := rule.Parse("rules", []byte("{rules: [], shedders: {worker: {}}, classes: [{class: test, scope: /**}]}"))
		if err != nil {
			t.Fatal(err)
		}

		limiter, err := leaseway.Embedded(set, leaseway.WithSignal("full", func() float64 { return 1 }))
		if err != nil {
			t.Fatal(err)
		}

		limits := leasewaygrpc.New(limiter)
		call := func(method string) error {
			served := func(context.Context, any) (any, error) { return "served", nil }
			_, err := limits.UnaryServer(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method}, served)

			return err
		}

		time.Sleep(time.Minute)

		err = call(echoMethod)

		info, retry, quota := details(t, err)
		if status.Code(err) != codes.Unavailable || info.GetReason() != "SHED_WORKER" || retry.GetRetryDelay().AsDuration() <= 0 || quota != nil {
			t.Errorf("got %v with %v, %v and %v", err, info, retry, quota)
		}

		if err := call(healthv1.Health_Check_FullMethodName); err != nil {
			t.Errorf("a health check got %v", err)
		}

		if err := limiter.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A trusted proxy says whose address a call has, and nothing else: neither who the user is, nor that a call matters more.
func TestTrustedProxiesSayTheAddress(t *testing.T) {
	const rules = `
identity: {user: {header: X-User}}
rules:
  - {id: per-address, keyBy: ip, limit: 1, window: 1h}
  - {id: per-user, keyBy: user, missing: skip, limit: 1, window: 1h}
`

	for trusted, want := range map[string][]codes.Code{
		"127.0.0.0/8": {codes.OK, codes.OK, codes.ResourceExhausted},
		"10.0.0.0/8":  {codes.OK, codes.ResourceExhausted, codes.ResourceExhausted},
	} {
		var classes []rule.Class

		limits := leasewaygrpc.New(limiterOf(t, rules), leasewaygrpc.WithTrustedProxies(netip.MustParsePrefix(trusted)),
			leasewaygrpc.WithAttributes(func(_ context.Context, req *leaseway.Request) { classes = append(classes, req.Class) }))
		conn := serve(t, limits)

		for i, client := range []string{"192.0.2.1", "192.0.2.2", "203.0.113.9, 192.0.2.1"} {
			_, err := call(t, conn, "hello", "x-forwarded-for", client, "x-user", "ada", "leaseway-class", "critical")
			if status.Code(err) != want[i] {
				t.Errorf("by %s, for %s: got %v, want %v", trusted, client, err, want[i])
			}
		}

		if !slices.Equal(classes, make([]rule.Class, 3)) {
			t.Errorf("by %s: the calls have the classes %v, want none by their own word", trusted, classes)
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

// A rule that fails closed is no budget that is used up: callers are told of an outage, and when to come back.
func TestAnOutageIsUnavailable(t *testing.T) {
	set, err := rule.Parse("rules", []byte("rules: [{id: closed, limit: 5, window: 1h, onUnavailable: deny}]"))
	if err != nil {
		t.Fatal(err)
	}

	limiter, err := leaseway.Over(t.Context(), hanging{set.Next(nil, 1)}, leaseway.WithDeadline(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = limiter.Close(context.Background()) }()

	_, err = call(t, serve(t, leasewaygrpc.New(limiter)), "hello")

	info, retry, quota := details(t, err)
	if status.Code(err) != codes.Unavailable || info.GetReason() != "UNAVAILABLE" || info.GetMetadata()["rule"] != "closed" ||
		retry.GetRetryDelay().AsDuration() <= 0 || quota != nil {
		t.Errorf("got %v with %v, %v and %v", err, info, retry, quota)
	}
}

func TestABlockedCallerIsToldToStay(t *testing.T) {
	conn := serve(t, leasewaygrpc.New(limiterOf(t, "rules: [{id: no, limit: 0, window: 1s, block: true}]")))

	trailer, err := call(t, conn, "hello")
	if _, retry, _ := details(t, err); retry != nil || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v with %v", err, retry)
	}

	if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "-1" {
		t.Errorf("the pushback is %v", got)
	}
}

// A call that costs more than what is left is told so, not that all is used up.
func TestACostAboveWhatIsLeft(t *testing.T) {
	conn := serve(t, leasewaygrpc.New(limiterOf(t, "rules: [{id: r, limit: 3, window: 1h, cost: 2}]")))

	if _, err := call(t, conn, "hello"); err != nil {
		t.Fatal(err)
	}

	_, err := call(t, conn, "hello")
	if want := "the call costs more than what is left, which is 1"; !strings.Contains(status.Convert(err).Message(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// However a call ends, the next one finds its slot.
func TestSlotsComeBack(t *testing.T) {
	limiter := limiterOf(t, "rules: [{id: one, algorithm: concurrency, limit: 1}]")
	conn := serve(t, leasewaygrpc.New(limiter))
	inFlight := func() int64 { return limiter.Stats().Slots[0].InFlight }
	free := func(after string) {
		t.Helper()

		deadline := time.After(patience)
		tick := time.NewTicker(time.Millisecond)

		defer tick.Stop()

		for inFlight() != 0 {
			select {
			case <-deadline:
				t.Fatalf("after %s the slot is still taken", after)
			case <-tick.C:
			}
		}
	}

	if _, err := call(t, conn, "panic"); err == nil {
		t.Fatal("no panic")
	}

	free("a panic")

	ctx, cancel := context.WithCancel(t.Context())
	s := openStream(ctx, t, conn)

	if err := exchange(s, "hello"); err != nil {
		t.Fatal(err)
	}

	_, err := call(t, conn, "hello")

	info, retry, _ := details(t, err)
	if status.Code(err) != codes.ResourceExhausted || info.GetReason() != "TOO_MANY_IN_FLIGHT" || info.GetMetadata()["rule"] != "one" ||
		retry.GetRetryDelay().AsDuration() <= 0 {
		t.Errorf("beside an open stream: got %v with %v and %v", err, info, retry)
	}

	cancel()
	free("a stream whose client left")

	s = openStream(t.Context(), t, conn)
	if err := exchange(s, "panic"); err == nil {
		t.Fatal("no panic")
	}

	free("a panic in a stream")

	if _, err := call(t, conn, "hello"); err != nil {
		t.Error(err)
	}
}

// The first message is the call's own. The handler cannot hide the refusal, and a concurrency rule has nothing to say of messages.
func TestMessagesAreLimitedIfAsked(t *testing.T) {
	rules := `
rules:
  - {id: messages, scope: {descriptors: {message: each}}, keyBy: user, limit: 2, window: 1h}
  - {id: one, algorithm: concurrency, limit: 1}
`
	limits := leasewaygrpc.New(limiterOf(t, rules),
		leasewaygrpc.WithPerMessage("messages", func(ctx context.Context) string { return leasewaygrpc.Metadata(ctx, "x-user") }))
	conn := serve(t, limits)
	s := openStream(t.Context(), t, conn)

	for i := range 3 {
		if err := exchange(s, "hello"); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}

	err := exchange(s, "hello")
	if info, _, _ := details(t, err); status.Code(err) != codes.ResourceExhausted || info.GetMetadata()["rule"] != "messages" {
		t.Errorf("got %v", err)
	}

	if got := s.Trailer().Get("grpc-retry-pushback-ms"); len(got) != 1 {
		t.Errorf("the pushback is %v", got)
	}
}

func TestAClientDoesNotSendWhatItsRulesRefuse(t *testing.T) {
	limiter := limiterOf(t, "rules: [{id: one, algorithm: concurrency, limit: 1}, {id: two, scope: "+echoMethod+", limit: 2, window: 1h}]")
	limits := leasewaygrpc.New(limiter)
	conn := serve(t, nil, grpc.WithChainUnaryInterceptor(limits.UnaryClient), grpc.WithChainStreamInterceptor(limits.StreamClient))

	for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		if _, err := call(t, conn, "hello"); status.Code(err) != want {
			t.Errorf("call %d: got %v, want %v", i, err, want)
		}
	}

	s := openStream(t.Context(), t, conn)
	if _, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, streamMethod); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second stream: got %v", err)
	}

	// The end of the first one makes room.
	_ = s.CloseSend()
	if err := s.RecvMsg(&wrapperspb.StringValue{}); err == nil {
		t.Fatal("the stream goes on")
	}

	ctx, cancel := context.WithCancel(t.Context())
	_ = openStream(ctx, t, conn)

	cancel()

	deadline := time.Now().Add(patience)
	for limiter.Stats().Slots[0].InFlight != 0 {
		if time.Now().After(deadline) {
			t.Fatal("a stream that was given up still has its slot")
		}
	}
}

func TestAnOptionSaysWhoseBudgetItIs(t *testing.T) {
	limits := leasewaygrpc.New(limiterOf(t, "rules: [{id: one, keyBy: user, limit: 1, window: 1h}]"),
		leasewaygrpc.WithAttributes(func(ctx context.Context, req *leaseway.Request) {
			req.User = leasewaygrpc.Metadata(ctx, "X-Tenant") + leasewaygrpc.PeerName(ctx)
		}))
	conn := serve(t, limits)

	for tenant, want := range map[string][2]codes.Code{"a": {codes.OK, codes.ResourceExhausted}, "b": {codes.OK, codes.ResourceExhausted}} {
		for i := range want {
			if _, err := call(t, conn, "hello", "x-tenant", tenant); status.Code(err) != want[i] {
				t.Errorf("%s, call %d: got %v", tenant, i, err)
			}
		}
	}
}

// A bug in what describes a call, or decides it, costs no call.
func TestABugServesTheCall(t *testing.T) {
	limits := leasewaygrpc.New(limiterOf(t, "rules: []"),
		leasewaygrpc.WithAttributes(func(context.Context, *leaseway.Request) { panic("a bug") }))
	conn := serve(t, limits)

	if _, err := call(t, conn, "hello"); err != nil {
		t.Error(err)
	}

	if n := limits.Panics(); n != 1 {
		t.Errorf("%d bugs were counted", n)
	}
}

// A leaky bucket lets calls out evenly; one whose caller does not wait that long is not kept.
func TestACallIsHeldUntilItsTurn(t *testing.T) {
	conn := serve(t, leasewaygrpc.New(limiterOf(t, "rules: [{id: even, algorithm: leaky_bucket, limit: 2, window: 1h, burst: 2}]")))

	if _, err := call(t, conn, "hello"); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	err := conn.Invoke(ctx, echoMethod, wrapperspb.String("hello"), &wrapperspb.StringValue{})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
}

// What a refusal says is a sentence, with spans of time as people say them, and no wait is said to be shorter than it is.
func TestRefusalsAreSentences(t *testing.T) {
	limits := leasewaygrpc.New(limiterOf(t, "rules: [{id: monthly, algorithm: fixed_window, limit: 5, window: 1mo}]"))

	over := func(id string, quota, limit int64, window, wait time.Duration) leaseway.Decision {
		return leaseway.Decision{Reason: leaseway.ReasonOverLimit, Rule: id, Quota: quota, Limit: limit, Window: window, RetryAfter: wait}
	}

	for want, d := range map[string]leaseway.Decision{
		`rule "r" allows 100 calls a minute; they are used up: try again in 1 second`:                           over("r", 100, 100, time.Minute, time.Second),
		`rule "r" allows 100 calls a minute, and at most 150 at once; they are used up: try again in 2 seconds`: over("r", 100, 150, time.Minute, time.Second+1),
		`rule "r" allows 1 call every 90 seconds; it is used up: try again in 60 milliseconds`:                  over("r", 1, 1, 90*time.Second, 59*time.Millisecond+1),
		`rule "monthly" allows 5 calls a month; they are used up: try again in 8 days`:                          over("monthly", 5, 5, 30*24*time.Hour, 8*24*time.Hour),
		`rule "r" allows 1 call in flight, and there are as many: send fewer in parallel`:                       {Reason: leaseway.ReasonTooManyInFlight, Rule: "r", Quota: 1},
	} {
		if s, _ := limits.Refusal(d); s.Message() != want {
			t.Errorf("got  %s\nwant %s", s.Message(), want)
		}
	}
}

func TestRefusalsLinkWhatTheOperatorSays(t *testing.T) {
	const url = "https://docs.example/limits"

	limits := leasewaygrpc.New(limiterOf(t, "rules: []"), leasewaygrpc.WithDocs(url))
	s, _ := limits.Refusal(leaseway.Decision{Reason: leaseway.ReasonBlocked, Rule: "r"})

	for _, detail := range s.Details() {
		if help, ok := detail.(*errdetails.Help); ok && help.GetLinks()[0].GetUrl() == url {
			return
		}
	}

	t.Errorf("no link among %v", s.Details())
}
