package storetest

import (
	"context"
	"time"
)

func (r *rig) beat(ttl time.Duration, holders ...uint64) int64 {
	r.Helper()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // as in apply
	defer cancel()

	live, err := r.store.Beat(ctx, holders, ttl)
	if err != nil {
		r.Fatalf("Beat: %v", err)
	}

	return live
}

func beatsCount(r *rig) {
	const ttl = 50 * time.Millisecond

	want := func(what string, got, want int64) {
		r.Helper()

		if got != want {
			r.Errorf("%s: %d live, want %d", what, got, want)
		}
	}

	want("nobody yet", r.beat(ttl), 0)
	want("the first", r.beat(time.Hour, 1), 1)
	want("two more at once", r.beat(time.Hour, 2, 3), 3)
	want("again", r.beat(time.Hour, 1, 2, 2), 3)
	want("the highest id there is", r.beat(time.Hour, 1<<64-1), 4)
	want("two that live shortly", r.beat(ttl, 4, 5), 6)

	if r.clock.virtual {
		r.advance(ttl - time.Microsecond)
		want("a microsecond before the end", r.beat(ttl, 5), 6)
		r.advance(time.Microsecond)
		want("one ended and one was renewed", r.beat(ttl), 5)
	}

	r.advance(ttl)
	want("both ended", r.beat(ttl), 4)
}

func manyBeats(r *rig) {
	r.together(func(n int) int64 {
		for range 50 {
			r.beat(time.Hour, uint64(n+1), uint64(n+1+crowd))
		}

		return 0
	})

	if live := r.beat(time.Hour); live != 2*crowd {
		r.Errorf("%d holders live, want %d", live, 2*crowd)
	}
}
