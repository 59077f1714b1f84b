package ledger

import (
	"fmt"
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

// crowded returns a ledger of which n holders each have a lease, and the terms of it.
func crowded(tb testing.TB, n int) (s *State, terms Terms) {
	tb.Helper()

	bucket, err := rate.NewBucket(int64(n)*1_000, 1_000_000, int64(n)*1_000)
	if err != nil {
		tb.Fatal(err)
	}

	s, terms = &State{}, Terms{Bucket: bucket, Version: 1, TTL: 500_000}
	for i := range n {
		s.Apply(1_000_000+int64(i), terms, Ask{Holder: uint64(i + 1), Seq: 1, RaiseTo: 10, Keep: true})
	}

	if len(s.Leases) != n {
		tb.Fatalf("%d of %d holders have a lease", len(s.Leases), n)
	}

	return s, terms
}

// When many leases end at once it is as if each had ended by itself, oldest first.
func TestACrowdForfeitsAsOneAfterTheOther(t *testing.T) {
	const n = 300

	at, _ := crowded(t, n)
	once, _ := crowded(t, n)

	for i := range n { // in another order than they were opened
		j := (i * 7) % n
		at.Leases[i].Exp, once.Leases[i].Exp = 1_500_000+int64(j/2), 1_500_000+int64(j/2)
	}

	for now := int64(1_400_000); now <= 1_500_000+n; now++ {
		at.Expire(now)
	}

	once.Expire(1_500_000 + n)

	if at.TAT != once.TAT || len(at.Leases)+len(once.Leases) != 0 {
		t.Errorf("one by one: full at %v with %d leases; together: full at %v with %d",
			at.TAT, len(at.Leases), once.TAT, len(once.Leases))
	}

	if idle := once.Clear() - once.Now; idle <= 0 {
		t.Errorf("the bucket is full %d µs ago: nothing was forfeited", -idle)
	}
}

// What an ask costs where many holders share one key.
func BenchmarkCrowd(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprint("holders=", n), func(b *testing.B) {
			s, terms := crowded(b, n)
			now, seq := s.Now, uint64(1)

			for i := 0; b.Loop(); i++ {
				if i%n == 0 {
					seq++
				}

				now++
				l := s.find(uint64(i%n + 1))
				lease := &s.Leases[l]
				ask := Ask{Holder: lease.Holder, Seq: seq, Lease: lease.ID, Spent: lease.Spent + 1, RaiseTo: lease.Granted + 1, Keep: true}
				lease.Exp = now + 500_000 // virtual time passes too slowly for anything to end
				s.Apply(now, terms, ask)
			}
		})

		b.Run(fmt.Sprint("ends=", n), func(b *testing.B) {
			kept, _ := crowded(b, n)
			s := *kept

			for b.Loop() {
				s = *kept
				s.Leases = append([]Lease(nil), kept.Leases...)
				s.Expire(kept.Now + 1_000_000)
			}
		})
	}
}
