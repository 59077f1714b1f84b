package sim

// bins count a run's tokens by time, for a picture. A nil one counts nothing.
type bins struct {
	width    int64 // of a bin, µs
	wanted   []int64
	admitted []int64
	ideal    []int64
	limits   []int64   // in force, tokens a second
	servers  [][]int64 // admitted in each place of the fleet
}

// at makes counts long enough for the bin of the instant at, and returns that.
func (b *bins) at(counts []int64, at int64) (grown []int64, i int) {
	i = int((at - start) / b.width)
	for len(counts) <= i {
		counts = append(counts, 0)
	}

	return counts, i
}

func (b *bins) arrived(q request, ideal bool) {
	if b == nil {
		return
	}

	var i int

	b.wanted, i = b.at(b.wanted, q.at)
	b.wanted[i] += q.cost

	if ideal {
		b.ideal, i = b.at(b.ideal, q.at)
		b.ideal[i] += q.cost
	}
}

func (b *bins) passed(s *server, q request) {
	if b == nil {
		return
	}

	var i int

	b.admitted, i = b.at(b.admitted, q.at)
	b.admitted[i] += q.cost

	for len(b.servers) <= s.slot {
		b.servers = append(b.servers, nil)
	}

	b.servers[s.slot], i = b.at(b.servers[s.slot], q.at)
	b.servers[s.slot][i] += q.cost
}

// whole has all counts go on until end: what stopped earlier was nothing from then on.
func (b *bins) whole(end int64) {
	for _, counts := range []*[]int64{&b.wanted, &b.admitted, &b.ideal} {
		*counts, _ = b.at(*counts, end-1)
	}

	for i := range b.servers {
		b.servers[i], _ = b.at(b.servers[i], end-1)
	}
}
