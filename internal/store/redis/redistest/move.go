package redistest

import (
	"context"
	"strconv"
)

// MoveSlot moves a hash slot with its keys from one master to another, as
// redis-cli --cluster reshard does. Between its steps it calls during.
func (c *Cluster) MoveSlot(ctx context.Context, slot int, move Move) error {
	number := strconv.Itoa(slot)

	from, err := move.From.Ask(ctx, "CLUSTER", "MYID")
	if err != nil {
		return err
	}

	to, err := move.To.Ask(ctx, "CLUSTER", "MYID")
	if err != nil {
		return err
	}

	if err := move.To.Do(ctx, "CLUSTER", "SETSLOT", number, "IMPORTING", from); err != nil {
		return err
	}

	if err := move.From.Do(ctx, "CLUSTER", "SETSLOT", number, "MIGRATING", to); err != nil {
		return err
	}

	move.During()

	batch := strconv.Itoa(max(1, move.Batch))

	for {
		keys, err := move.From.send(ctx, []string{"CLUSTER", "GETKEYSINSLOT", number, batch}).AsStrSlice()
		if err != nil {
			return err
		}

		if len(keys) == 0 {
			break
		}

		args := append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(move.To.port), "", "0", "5000", "KEYS"}, keys...)
		if err := move.From.Do(ctx, args...); err != nil {
			return err
		}

		move.During()
	}

	for _, s := range append([]*Server{move.To, move.From}, c.Masters...) {
		if err := s.Do(ctx, "CLUSTER", "SETSLOT", number, "NODE", to); err != nil {
			return err
		}
	}

	return nil
}

// A Move says where a slot goes, and what to do on its way.
type Move struct {
	From, To *Server
	Batch    int // keys that move in one step; 1 if 0
	During   func()
}
