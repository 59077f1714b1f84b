package rpc

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

// Those who are refused are told times that do not fall together, and no time that is far off.
func TestRefusalsAreSpaced(t *testing.T) {
	q, now := newTurnstile(), time.Unix(1_800_000_000, 0)
	last := time.Duration(0)

	for i := range 10_000 {
		after := q.book(now)
		if i == 0 && after != minComeBack {
			t.Fatalf("the first comes back after %v, want %v", after, minComeBack)
		}

		if i > 0 && after-last != firstPace {
			t.Fatalf("refusal %d comes %v after the one before, want %v", i, after-last, firstPace)
		}

		last = after
	}

	for range 100_000 {
		if after := q.book(now); after > maxComeBack+firstPace {
			t.Fatalf("told to come back after %v", after)
		}
	}

	// Much later the book is empty again.
	if after := q.book(now.Add(time.Minute)); after != minComeBack {
		t.Errorf("after a lull it is %v, want %v", after, minComeBack)
	}
}

// The distance follows what answers really take.
func TestThePaceIsMeasured(t *testing.T) {
	q, now := newTurnstile(), time.Unix(1_800_000_000, 0)

	for range 1_000 {
		now = now.Add(time.Millisecond)
		q.answered(now, true)
	}

	if q.pace < 900*time.Microsecond || q.pace > 1_100*time.Microsecond {
		t.Errorf("the pace is %v, and answers took 1 ms", q.pace)
	}

	before := q.pace
	q.answered(now.Add(time.Hour), true) // a lull is no pace
	q.answered(now, false)               // nor is an answer that nobody waited behind

	if q.pace != before {
		t.Errorf("the pace went from %v to %v", before, q.pace)
	}
}

// There is room for as many as can be answered in time, within bounds.
func TestRoomFollowsThePace(t *testing.T) {
	for pace, want := range map[time.Duration]int64{
		0: maxAtWork + maxWaiting, time.Microsecond: maxAtWork + maxWaiting, 50 * time.Microsecond: 800, time.Second: maxAtWork,
	} {
		if got := roomAt(pace); got != want {
			t.Errorf("at an answer in %v there is room for %d, want %d", pace, got, want)
		}
	}
}

// A full house refuses before it reads, says when to come back, and lets in as many as fit.
func TestAFullHouseRefuses(t *testing.T) {
	q := newTurnstile()
	open := make(chan struct{})
	answers := make(chan error)

	var working atomic.Int64

	slow := func(context.Context, any) (any, error) {
		working.Add(1)
		<-open

		return struct{}{}, nil
	}

	const tooMany = 10

	room := int(q.room.Load())
	refused := 0

	for range room + tooMany {
		inner, err := q.tap(t.Context(), acquireTap)
		if err == nil {
			go func() { answers <- q.handle(inner, slow) }()

			continue
		}

		refused++

		if after, said := comeBack(err); !said || after < minComeBack {
			t.Errorf("refused without a time to come back: %v, %v", after, said)
		}
	}

	if refused != tooMany {
		t.Errorf("%d of %d were refused, and there is room for %d", refused, room+tooMany, room)
	}

	eventually(t, "all that can are at work", func() bool { return working.Load() == maxAtWork })

	if _, err := q.tap(t.Context(), acquireTap); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more gets %v, want RESOURCE_EXHAUSTED", err)
	}

	if _, err := q.tap(t.Context(), &tap.Info{FullMethodName: "/grpc.health.v1.Health/Check"}); err != nil {
		t.Errorf("a health check is refused: %v", err)
	}

	close(open)

	for range room + tooMany - refused {
		if err := <-answers; err != nil {
			t.Errorf("one that was let in got %v", err)
		}
	}

	if n := q.inside.Load(); n != 0 {
		t.Errorf("%d are still inside", n)
	}
}

// Whoever goes away while waiting takes nobody's turn.
func TestACallerWhoLeavesTakesNoTurn(t *testing.T) {
	q := newTurnstile()
	for range maxAtWork {
		q.atWork <- struct{}{}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	err := q.call(ctx, func(context.Context, any) (any, error) { return nil, errors.New("it was served") })
	if status.Code(err) != codes.Canceled {
		t.Errorf("got %v, want Canceled", err)
	}

	eventually(t, "nobody is inside", func() bool { return q.inside.Load() == 0 })
}

// One that is cut off before anybody handles it leaves as well.
func TestACallThatIsNeverHandledLeaves(t *testing.T) {
	q := newTurnstile()
	ctx, cancel := context.WithCancel(t.Context())

	if q.enter(ctx) == nil || q.inside.Load() != 1 {
		t.Fatal("it was not let in")
	}

	cancel()
	eventually(t, "it has left", func() bool { return q.inside.Load() == 0 })
}

var acquireTap = &tap.Info{FullMethodName: leasewayv1.CoordinatorService_Acquire_FullMethodName}

// call goes through the tap and the interceptor, as a call does.
func (t *turnstile) call(ctx context.Context, handler grpc.UnaryHandler) error {
	inner, err := t.tap(ctx, acquireTap)
	if err != nil {
		return err
	}

	return t.handle(inner, handler)
}

// handle goes through the interceptor with what the tap returned.
func (t *turnstile) handle(ctx context.Context, handler grpc.UnaryHandler) error {
	_, err := t.pass(ctx, nil, &grpc.UnaryServerInfo{FullMethod: acquireTap.FullMethodName}, handler)

	return err
}

// busy refuses every call, and says to come back much later than a breaker would let a probe through.
type full struct {
	leasewayv1.UnimplementedCoordinatorServiceServer

	calls atomic.Int64
}

func (b *full) Acquire(context.Context, *leasewayv1.AcquireRequest) (*leasewayv1.AcquireResponse, error) {
	b.calls.Add(1)

	return nil, tooBusy("test", time.Hour)
}

// A client comes back when it was told to, believes no time that is absurd, and goes elsewhere meanwhile.
func TestAClientComesBackWhenItWasTold(t *testing.T) {
	service := &full{}
	server := serveService(t, service)
	other := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1)})

	alone := dialTo(t, nil, server)

	var n calls

	for range 50 {
		if _, err := alone.Acquire(t.Context(), n.take("k")); err == nil {
			t.Fatal("an answer of a server that has none")
		}
	}

	if got := service.calls.Load(); got != 1 {
		t.Errorf("it was called %d times, want once", got)
	}

	if !alone.Unavailable() || alone.replicas[0].open() {
		t.Error("a busy replica is to be left alone, and is not broken")
	}

	if rest := time.Duration(alone.replicas[0].rest.Load()) - alone.now(); rest > maxComeBack*5/4 || rest < maxComeBack/2 {
		t.Errorf("it comes back in %v", rest)
	}

	both := dialTo(t, nil, server, other)
	both.begin(0)

	if _, err := both.Acquire(t.Context(), n.take("k")); err != nil {
		t.Errorf("the other one was not asked: %v", err)
	}
}

// What an answer costs both sides, and what a refusal does, over a connection of its own.
func BenchmarkAcquireUnderLoad(b *testing.B) {
	server := serve(b, ServerConfig{Coordinator: newCoordinator(b, newStore(b), newBook(b)), Signer: signer(b, 1)})
	client := dialTo(b, nil, server)
	replica := client.replicas[0]

	var n calls

	for _, row := range []struct {
		name string
		room int64
	}{{"answered", maxAtWork}, {"refused", 0}} {
		b.Run(row.name, func(b *testing.B) {
			server.queue.room.Store(row.room)

			for b.Loop() {
				req, err := client.encode(n.take("k"))
				if err != nil {
					b.Fatal(err)
				}

				if err = replica.acquire(b.Context(), req); (err == nil) != (row.room > 0) {
					b.Fatal(err)
				}
			}
		})
	}
}
