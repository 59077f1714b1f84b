package table

import "container/heap"

// sooner makes k's appointment if it has none before at.
func (d *desk) sooner(k *slotKey, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if k.due == 0 || at < k.due {
		k.due = at
		heap.Push(&d.agenda, appointment{at, k})

		if len(d.agenda.list) == 1 {
			signal(d.stir)
		}
	}
}

// take returns the keys whose time has come.
func (d *desk) take(now int64) (keys []*slotKey) {
	d.mu.Lock()
	defer d.mu.Unlock()

	for len(d.agenda.list) > 0 && d.agenda.list[0].at <= now {
		a, _ := heap.Pop(&d.agenda).(appointment)
		if a.key.due == a.at { // else it has an earlier one, or had
			a.key.due = 0
			keys = append(keys, a.key)
		}
	}

	return keys
}

// due returns when the next appointment is, if there is any.
func (d *desk) due() (at int64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if len(d.agenda.list) == 0 {
		return 0, false
	}

	return d.agenda.list[0].at, true
}

// appointment is a time at which something is due for a key.
type appointment struct {
	at  int64
	key *slotKey
}

// agenda is a heap of appointments, the first on top.
type agenda struct{ list []appointment }

// Len is for package heap, as all below.
func (a *agenda) Len() int { return len(a.list) }

// Less says which of two is first.
func (a *agenda) Less(i, j int) bool { return a.list[i].at < a.list[j].at }

// Swap changes the places of two.
func (a *agenda) Swap(i, j int) { a.list[i], a.list[j] = a.list[j], a.list[i] }

// Push adds one at the end.
func (a *agenda) Push(x any) {
	if one, ok := x.(appointment); ok {
		a.list = append(a.list, one)
	}
}

// Pop takes the last one away.
func (a *agenda) Pop() any {
	last := a.list[len(a.list)-1]
	a.list[len(a.list)-1] = appointment{}
	a.list = a.list[:len(a.list)-1]

	return last
}
