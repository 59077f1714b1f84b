package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// Of coordinators that write at once one is first, and the others read what it wrote.
func TestNumbersAreAgreedOnOnce(t *testing.T) {
	server := redistest.NewServer(t)
	a, b := openAt(t, []string{server.Address}), openAt(t, []string{server.Address})
	ctx := t.Context()

	if n, err := a.Numbers(ctx, ""); err != nil || n != (store.Numbers{}) {
		t.Fatalf("at first there is %+v (%v)", n, err)
	}

	first := store.Numbers{Head: "1", Rules: "the first"}

	if done, err := a.Renumber(ctx, "", first); err != nil || !done {
		t.Fatalf("the first to write does not: %v (%v)", done, err)
	}

	if done, err := b.Renumber(ctx, "", store.Numbers{Head: "2"}); err != nil || done {
		t.Errorf("what the other wrote was replaced unread: %v (%v)", done, err)
	}

	if n, err := b.Numbers(ctx, ""); err != nil || n != first {
		t.Errorf("the other reads %+v (%v)", n, err)
	}

	if n, err := b.Numbers(ctx, "1"); err != nil || n != (store.Numbers{Head: "1"}) {
		t.Errorf("what is known already is read again: %+v (%v)", n, err)
	}

	if err := server.Do(ctx, "FUNCTION", "FLUSH"); err != nil {
		t.Fatal(err)
	}

	if done, err := b.Renumber(ctx, "1", store.Numbers{Head: "2"}); err != nil || !done {
		t.Errorf("after the functions were lost: %v (%v)", done, err)
	}

	if n, err := a.Numbers(ctx, "1"); err != nil || n != (store.Numbers{Head: "2"}) {
		t.Errorf("then there is %+v (%v)", n, err)
	}

	ttl, err := a.client.Do(ctx, a.client.B().Pttl().Key(a.names.numbers()).Build()).AsInt64()
	if kept := time.Duration(ttl) * time.Millisecond; err != nil || kept > keepData || kept < keepData-time.Hour {
		t.Errorf("it is kept for %v (%v)", kept, err)
	}

	if done, err := a.Renumber(ctx, "2", store.Numbers{Rules: strings.Repeat("x", maxNumbers+1)}); err == nil || done {
		t.Error("any size is taken")
	}
}
