// Under the race detector pools lose part of what they are given.

//go:build !race

package rpc

import (
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
)

// What a call allocates, on both sides together, does not grow with its keys.
func TestKeysCostNoMemoryObjects(t *testing.T) {
	server := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1)})
	client := dialTo(t, nil, server)

	var n calls

	allocs := func(keys int) float64 {
		batch := n.take(make([]string, keys)...)
		batch.Reply = &ledger.Answers{}

		return testing.AllocsPerRun(50, func() {
			n.seq++
			batch.Seq = n.seq
			acquire(t, client, batch)
		})
	}

	// An ask has a list of takes, which is one object.
	if few, many := allocs(1), allocs(201); many-few > 200*1.5 {
		t.Errorf("a call of one key makes %v objects, one of 201 %v", few, many)
	}
}
