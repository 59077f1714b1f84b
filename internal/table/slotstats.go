package table

import "time"

// SlotStats are how things stand with one rule that bounds what is in flight.
type SlotStats struct {
	Rule     string
	InFlight int64         // slots of requests in flight here
	Held     int64         // slots that this process has, those in flight included
	Queued   int64         // requests that wait for one
	Longest  time.Duration // how long the oldest request in flight has lasted
}

// SlotStats looks at every key and every slot of the concurrency rules in force, in their order.
func (t *Table) SlotStats() []SlotStats {
	var (
		all []SlotStats
		at  = map[string]int{}
		now = t.clock.Now()
	)

	for _, r := range t.running.Load().rules {
		if !r.BoundsInFlight() {
			continue
		}

		s := SlotStats{Rule: r.id}
		add := func(k *slotKey) {
			k.mu.Lock()
			defer k.mu.Unlock()

			s.InFlight += k.Busy()
			s.Held += k.Slots()
			s.Queued += int64(len(k.line))
		}

		r.each(func(r *Rule) {
			r.slots.all(add)

			if spare := r.slots.spare.Load(); spare != nil {
				add(spare)
			}
		})

		at[r.id] = len(all)
		all = append(all, s)
	}

	t.desk.tickets.held(func(k *slotKey, since int64) {
		if i, ok := at[k.rule.id]; ok {
			all[i].Longest = max(all[i].Longest, time.Duration(now-since)*time.Microsecond)
		}
	})

	return all
}
