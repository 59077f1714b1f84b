package rpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

const (
	// maxAtWork is how many batches are worked on at once. Those of a store behind a network mostly wait for it.
	maxAtWork = 256
	// maxWaiting is how many more may wait for their turn, and maxWait how long: holders wait 100 ms
	// for an answer, the network's and the processor's own queues included. Later ones would be answered to nobody.
	maxWaiting = 2_048
	maxWait    = 40 * time.Millisecond
	// busy is from how many inside the pace is measured: fewer may be waiting for nothing but callers.
	busy = 16
	// maxWatchers is how many streams of rules may be open: one a holder.
	maxWatchers = 100_000

	// A caller that is refused comes back after this time at least, and at most.
	minComeBack = 100 * time.Millisecond
	maxComeBack = 2 * time.Second

	// firstPace is the time between two answers while none was measured.
	firstPace = 50 * time.Microsecond
)

// turnstile bounds the batches that are inside at once, so that overload costs
// those who come too late a refusal and not all of them their answers.
//
//	call ─▶ room to wait? ──yes──▶ its turn ──▶ answered, unless its caller left meanwhile
//	             └───────────no──▶ RESOURCE_EXHAUSTED, with the time at which there will be room
//
// Refusals are spaced like answers: each is told a later time than the one
// before, so that those who come back find room, and not each other.
type turnstile struct {
	atWork  chan struct{}
	inside  atomic.Int64 // at work, waiting, or not yet looked at
	room    atomic.Int64 // for how many
	refused atomic.Int64

	mu     sync.Mutex
	pace   time.Duration // between two answers under load, a moving average
	last   time.Time     // of the last answer, if the one after it already waited
	booked time.Time     // what the last refusal was told
}

func newTurnstile() *turnstile {
	t := &turnstile{atWork: make(chan struct{}, maxAtWork), pace: firstPace}
	t.room.Store(roomAt(firstPace))

	return t
}

// ticket is one call inside, from when its header was read until it is answered or given up.
type ticket struct {
	turnstile *turnstile
	inside    int64 // when it came, itself included
	left      atomic.Bool
	stop      func() bool // of what waits for the stream to end
}

type ticketKey struct{}

func (t *ticket) leave() {
	if !t.left.Swap(true) {
		t.turnstile.inside.Add(-1)
	}
}

// enter lets a call in whose stream lives as long as ctx, if there is room; else it returns nil.
func (t *turnstile) enter(ctx context.Context) *ticket {
	inside := t.inside.Add(1)
	if inside > t.room.Load() {
		t.inside.Add(-1)

		return nil
	}

	held := &ticket{turnstile: t, inside: inside}
	held.stop = context.AfterFunc(ctx, held.leave) // it may be cut off before anybody handles it

	return held
}

// tap refuses a call before it is read and costs a goroutine, if there is no room: this is what keeps refusals cheap. It
// counts those as well that the processor has not come to yet, which are the most when that is what is short.
func (t *turnstile) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if info.FullMethodName != leasewayv1.CoordinatorService_Acquire_FullMethodName {
		return ctx, nil
	}

	held := t.enter(ctx)
	if held == nil {
		return nil, t.refuse(time.Now())
	}

	return context.WithValue(ctx, ticketKey{}, held), nil
}

// pass lets a call through when it is its turn. It guards Acquire only.
func (t *turnstile) pass(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if info.FullMethod != leasewayv1.CoordinatorService_Acquire_FullMethodName {
		return next(ctx, req)
	}

	held, ok := ctx.Value(ticketKey{}).(*ticket)
	if !ok {
		return nil, status.Error(codes.Internal, "the call came past the tap")
	}

	defer func() {
		held.stop()
		held.leave()
	}()

	select {
	case t.atWork <- struct{}{}:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}

	defer func() {
		<-t.atWork
		t.answered(time.Now(), held.inside >= busy)
	}()

	return next(ctx, req)
}

// answered measures the pace of answers while calls wait for them.
func (t *turnstile) answered(now time.Time, waited bool) {
	if !waited {
		return
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	if took := now.Sub(t.last); took >= 0 && took < minComeBack { // else there was a lull
		const weight = 64
		t.pace += (took - t.pace) / weight
		t.room.Store(roomAt(t.pace))
	}

	t.last = now
}

// roomAt returns how many may be inside, so that the last of them does not wait too long.
func roomAt(pace time.Duration) int64 {
	return maxAtWork + min(maxWaiting, max(0, int64(maxWait/max(1, pace))-maxAtWork))
}

// refuse books the time at which the caller will find room, and says so.
func (t *turnstile) refuse(now time.Time) error {
	t.refused.Add(1)

	return tooBusy("the coordinator has more calls than it can answer in time; come back then", t.book(now))
}

func (t *turnstile) book(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()

	if earliest := now.Add(minComeBack); t.booked.Before(earliest) {
		t.booked = earliest
	} else if latest := now.Add(maxComeBack); t.booked.After(latest) {
		t.booked = latest // further ahead nothing is known
	} else {
		t.booked = t.booked.Add(max(time.Microsecond, t.pace))
	}

	return t.booked.Sub(now)
}

// tooBusy returns RESOURCE_EXHAUSTED with the time after which to come back.
func tooBusy(message string, after time.Duration) error {
	return withDetail(status.New(codes.ResourceExhausted, message), &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
}

// comeBack returns after which time a server that refused a call wants the next
// one, if it said so. It is bounded, since whoever says it is not known yet.
func comeBack(err error) (after time.Duration, said bool) {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted && s.Code() != codes.Unavailable {
		return 0, false
	}

	for _, detail := range s.Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			return max(0, min(retry.GetRetryDelay().AsDuration(), maxComeBack)), true
		}
	}

	return 0, false
}
