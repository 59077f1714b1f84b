package holder

import (
	"math"

	"github.com/leaseway/leaseway/internal/ledger"
)

// Packed is a Trace in 24 bytes, and as many more if it has to say what few others do.
type Packed struct {
	common *Common
	at     uint64 // At, and above it the upper half of rate
	when   uint64 // and above it the lower half of Note
}

// Common is what most traces of a rule say alike, and share therefore: the terms, and that nothing is out of the ordinary.
type Common struct {
	terms   *ledger.Terms
	part    uint32
	used    uint32
	last    uint32
	note    uint16 // the upper half of Note
	cost    uint8
	holders uint8
}

// An instant on a holder's clock takes 48 bits for nine years.
const (
	instantBits = 48
	halfBits    = 16
)

// rough returns r in the 16 bits that a Packed has for it.
func rough(r float32) float32 {
	return math.Float32frombits((math.Float32bits(r) + 1<<(halfBits-1)) &^ (1<<halfBits - 1))
}

// Pack packs t, which then shares common with others if it says the same. It reports
// false for instants that are too far away: such a trace is not kept.
func (t *Trace) Pack(common *Common) (p Packed, ok bool) {
	at, when := uint64(t.At), uint64(t.when)
	if at>>instantBits != 0 || when>>instantBits != 0 {
		return p, false
	}

	own := Common{
		terms: t.Terms, part: t.part, used: t.used, last: t.last,
		note: uint16(t.Note >> halfBits), cost: t.cost, holders: t.holders,
	}

	if common == nil || *common != own {
		common = own.alone()
	}

	return Packed{
		common: common,
		at:     at | uint64(math.Float32bits(t.rate)>>halfBits)<<instantBits,
		when:   when | uint64(t.Note)<<instantBits,
	}, true
}

// alone returns c in memory of its own.
func (c Common) alone() *Common { return &c }

// Trace returns what was packed.
func (p *Packed) Trace() Trace {
	c := p.common

	return Trace{
		Terms: c.terms, At: p.At(), when: instant(p.when), part: c.part, used: c.used, last: c.last,
		rate: math.Float32frombits(uint32(p.at >> instantBits << halfBits)), cost: c.cost, holders: c.holders,
		Note: uint32(c.note)<<halfBits | uint32(p.when>>instantBits),
	}
}

// instant returns what stands below the upper bits.
func instant(bits uint64) int64 { return int64(bits & (1<<instantBits - 1)) }

// At returns when the last ask was sent that was answered, µs.
func (p *Packed) At() int64 { return instant(p.at) }

// Until returns until when more is denied, µs: 0 if it is not.
func (p *Packed) Until() int64 { return until(p.At(), p.common.last, p.common.terms) }

// Common returns what others may share that are under the same terms; ok is false if it says more than those.
func (p *Packed) Common(terms *ledger.Terms) (c *Common, ok bool) {
	c = p.common

	return c, c.terms == terms && c.part == 0 && c.used == 0 && c.last == 0 && c.note == 0
}
