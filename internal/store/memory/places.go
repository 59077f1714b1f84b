package memory

// places keep what a shard has of some of its ledgers, those that have leases, by an index that stays.
type places[T any] struct {
	each []T
	free []int
}

func (p *places[T]) at(i int) *T { return &p.each[i] }

func (p *places[T]) len() int { return len(p.each) - len(p.free) }

func (p *places[T]) add(one T) int {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		p.each[i] = one

		return i
	}

	p.each = append(p.each, one)

	return len(p.each) - 1
}

func (p *places[T]) remove(i int) {
	var none T

	p.each[i] = none
	p.free = append(p.free, i)

	if len(p.free) == len(p.each) {
		*p = places[T]{} // none is left: give the memory of the busiest hour back
	}
}
