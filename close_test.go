package leaseway_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// Whoever closes a Limiter a second time learns what came of the first, once that is done: nothing is in use any more then.
func TestCloseWaitsForTheCloseUnderWay(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		set, err := rule.Parse("r", []byte("rules: [{id: r, limit: 9, window: 1h}]"))
		if err != nil {
			t.Fatal(err)
		}

		broken, held := errors.New("cannot be released"), make(chan struct{})

		l, err := leaseway.Embedded(set, leaseway.WithRelease(func(context.Context) error {
			<-held

			return broken
		}))
		if err != nil {
			t.Fatal(err)
		}

		outcomes := make(chan error, 2)

		for range cap(outcomes) {
			go func() { outcomes <- l.Close(t.Context()) }()
		}

		synctest.Wait()

		select {
		case err := <-outcomes:
			t.Fatalf("a Close returned %v before the first was done", err)
		default:
		}

		ended, end := context.WithCancel(t.Context())
		end()

		if err := l.Close(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("a Close whose context has ended returned %v while the first was not done", err)
		}

		close(held)

		for range cap(outcomes) {
			if err := <-outcomes; !errors.Is(err, broken) {
				t.Errorf("got %v, want that of the first", err)
			}
		}

		if err := l.Close(ended); !errors.Is(err, broken) {
			t.Errorf("afterwards: got %v, want that of the first", err)
		}
	})
}
