package holder_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// The model: a few holders, one ledger and a network that loses, doubles,
// reorders and delays. The dumb twin knows nothing of leases: every admission
// goes into a bucket that drains at the rate, and it must never hold more than B.

// chooser draws the model's choices: rapid, which shrinks what fails, or a plain generator, which is fast.
type chooser interface {
	// pick returns a number from 0 to n-1.
	pick(label string, n int64) int64
}

type rapidChooser struct{ t *rapid.T }

func (c rapidChooser) pick(label string, n int64) int64 {
	return rapid.Int64Range(0, n-1).Draw(c.t, label)
}

type randChooser struct{ r *rand.Rand }

func (c randChooser) pick(_ string, n int64) int64 { return c.r.Int64N(n) }

type process struct {
	lease       *holder.Lease
	incarnation uint64
	offset      int64 // its clock against the store's
	paid        []payment
}

// payment is an admission that may be refunded, once.
type payment struct {
	holder.Payment

	window int64 // of the store's time
}

type message struct {
	to     int
	inc    uint64
	ask    ledger.Ask
	answer ledger.Answer
	cost   int64 // of the take
	window int64 // in which the store gave it
}

// storeEpoch marks a take: no lease paid it.
const storeEpoch = ^uint32(0)

type model struct {
	c       chooser
	now     int64
	bucket  rate.Bucket
	ttl     int64
	ledger  ledger.State
	holders []*process
	seq     uint64
	asks    []message
	answers []message
	twin    twin
	kind    rate.Algorithm
	length  int64
	log     []string
	counted map[string]bool   // takes counted, by ask
	pending map[refunds]int64 // not yet credited
	debts   map[uint64]int64  // as the ledger had it last
	verbose bool
}

func newModel(c chooser) *model {
	limits := [][2]int64{{10, 1_000_000}, {1000, 1_000_000}, {7, 1_000_000}, {3, 10_000}, {999, 100_000}}
	l := limits[c.pick("limit", int64(len(limits)))]
	burst := []int64{10, 1, 25, 100, 1000}[c.pick("burst", 5)]
	b, _ := rate.NewBucket(l[0], l[1], burst)
	m := &model{
		kind:   []rate.Algorithm{rate.TokenBucket, rate.TokenBucket, rate.FixedWindow, rate.SlidingWindow}[c.pick("kind", 4)],
		length: []int64{30_000, 1_000_000}[c.pick("length", 2)],
		c:      c, now: 1_000_000_000, bucket: b, ttl: []int64{20_000, 500_000}[c.pick("ttl", 2)], seq: 1,
		counted: map[string]bool{}, pending: map[refunds]int64{}, debts: map[uint64]int64{},
	}

	m.twin = twin{kind: m.kind, bucket: b, length: m.length}

	for range 1 + c.pick("holders", 3) {
		p := &process{offset: c.pick("offset", 1_000_000) - 500_000}
		m.start(p)
		m.holders = append(m.holders, p)
	}

	return m
}

func (m *model) start(p *process) {
	m.seq += 1000
	p.incarnation = m.seq
	p.lease, p.paid = holder.New(), nil
}

func (m *model) logf(format string, args ...any) {
	if m.verbose {
		m.log = append(m.log, fmt.Sprintf("%9d ", m.now)+fmt.Sprintf(format, args...))
	}
}

func (m *model) terms() ledger.Terms {
	t := ledger.Terms{Algorithm: m.kind, Bucket: m.bucket, Version: 1, TTL: m.ttl}
	if m.kind != rate.TokenBucket {
		t.Length = m.length
	}

	return t
}

// admit puts n tokens into the twin, and says whether they were too many.
func (m *model) admit(n int64) error {
	if err := m.twin.admit(m.now, n); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.Join(m.log, "\n"))
	}

	return nil
}

func (m *model) step() error {
	i := m.c.pick("holder", int64(len(m.holders)))
	p := m.holders[i]
	local := m.now + p.offset

	switch op := m.c.pick("op", 20); op {
	case 0, 1, 2:
		spans := []int64{0, 1, m.bucket.P/m.bucket.Q + 1, 1000, m.ttl / 3, m.ttl, m.ttl + ledger.Guard, 5 * m.ttl, m.bucket.P * m.bucket.Burst / m.bucket.Q}
		m.now += m.c.pick("dt", spans[m.c.pick("span", int64(len(spans)))]+1)
	case 3, 4, 5, 6, 7, 8:
		return m.spend(p, local, 1+m.c.pick("n", min(m.bucket.Burst, 12)))
	case 9, 10, 11:
		m.ask(int(i), p, local)
	case 12, 13, 14:
		return m.carryAsk()
	case 15, 16, 17:
		m.carryAnswer()
	case 18:
		if m.c.pick("refund", 2) == 0 {
			m.refund(p)
		} else if m.c.pick("restart", 4) == 0 {
			m.logf("holder %d restarts", i)
			m.start(p)
		}
	case 19:
		m.lose()
	}

	return nil
}

func (m *model) spend(p *process, local, n int64) error {
	if m.c.pick("all", 3) == 0 {
		n = max(n, p.lease.Balance())
	}

	epoch := p.lease.Epoch()

	_, v, _ := p.lease.Spend(local, n)
	if v == holder.Turned {
		tick := m.turn(p, local)

		epoch = p.lease.Epoch()
		_, v, _ = p.lease.Spend(tick, n)
	}

	if v == holder.Dry {
		p.lease.Refuse(n)

		return nil
	}

	m.logf("%d spends %d", p.incarnation, n)
	m.twin.roll(m.now)

	p.paid = append(p.paid, payment{holder.Payment{Epoch: epoch, N: n, End: p.lease.CountsUntil(local)}, m.twin.window.Start})

	return m.admit(n)
}

// turn begins the tick of local, at times the quick way.
func (m *model) turn(p *process, local int64) (tick int64) {
	if p.lease.Armed() && m.c.pick("quick", 4) > 0 && p.lease.QuickTurn(local, p.lease.Tick(), &m.bucket) {
		return local
	}

	tick = p.lease.Turn(local, local, holder.Exact{})
	p.lease.Note(local, &m.bucket)

	return tick
}

// refund gives back one admission. From the balance the twin has it back at
// once; otherwise when the ledger credits it, once.
func (m *model) refund(p *process) {
	if len(p.paid) == 0 {
		return
	}

	i := m.c.pick("payment", int64(len(p.paid)))
	paid := p.paid[i]
	p.paid = append(p.paid[:i], p.paid[i+1:]...)

	ask := p.lease.Refund(m.now+p.offset, paid.Payment)
	m.logf("%d refunds %+v, by an ask: %v", p.incarnation, paid, ask)

	if ask {
		m.pending[m.refunds(p.incarnation, paid.window)] += paid.N
	} else {
		m.twin.putBack(m.now, paid.N, paid.window)
	}
}

// refunds are those of an incarnation, told apart by the windows that they were admitted in.
type refunds struct {
	incarnation uint64
	window      int64 // 0 for buckets
}

func (m *model) refunds(inc uint64, window int64) refunds {
	if m.kind == rate.TokenBucket {
		window = 0
	}

	return refunds{inc, window}
}

// credit has the twin follow what the ledger credited, as far as it was ever refunded.
func (m *model) credit(inc uint64, debt int64) {
	of := m.refunds(inc, m.twin.roll(m.now))

	n := min(m.pending[of], m.debts[inc]-debt)
	if n > 0 {
		m.pending[of] -= n
		m.twin.putBack(m.now, n, m.twin.window.Start)
	}

	m.debts[inc] = debt
}

func (m *model) ask(i int, p *process, local int64) {
	if _, ok := p.lease.Asked(); ok {
		p.lease.Lost(0)
	}

	m.seq++
	need := holder.Need{Seq: m.seq, Holder: p.incarnation, Holders: 1, TTL: m.ttl, Return: m.c.pick("return", 6) == 0}

	switch m.c.pick("need", 3) {
	case 0:
		need.Needs = []int64{1 + m.c.pick("need", m.bucket.Burst)}
	case 1:
		need.Takes = []int64{1 + m.c.pick("take", m.bucket.Burst)}
	}

	if m.c.pick("ahead", 4) == 0 {
		if _, ok := p.lease.WantsAhead(0); ok {
			m.asks = append(m.asks, message{to: i, inc: p.incarnation, ask: p.lease.AskAhead(local, need)})
			m.logf("%d asks ahead", p.incarnation)

			return
		}
	}

	build := p.lease.Ask
	if m.seq%2 == 0 && !need.Return {
		build = p.lease.AskLong
	}

	ask := build(local, holder.Exact{}, need)
	m.logf("%d asks %+v", p.incarnation, ask)
	m.asks = append(m.asks, message{to: i, inc: p.incarnation, ask: ask})
}

// carryAsk brings any ask of the network to the ledger, and leaves it there once in a while.
func (m *model) carryAsk() error {
	if len(m.asks) == 0 {
		return nil
	}

	i := m.c.pick("ask", int64(len(m.asks)))
	msg := m.asks[i]

	if m.c.pick("double", 4) > 0 {
		m.asks = append(m.asks[:i], m.asks[i+1:]...)
	}

	m.now++ // a store takes its time, so that no two openings of a lease are of one microsecond
	m.twin.roll(m.now)

	before := m.ledger.TAT
	a := m.ledger.Apply(m.now, m.terms(), msg.ask)
	m.logf("ledger answers %d: %+v, tat %v → %v", msg.inc, a, before, m.ledger.TAT)

	if a.Status == ledger.OK {
		m.credit(msg.inc, a.Debt)
	}

	cost := int64(0)
	if len(msg.ask.Takes) > 0 {
		cost = msg.ask.Takes[0]
	}

	m.answers = append(m.answers, message{to: msg.to, inc: msg.inc, answer: a, cost: cost, window: m.twin.window.Start})

	if a.Taken == 0 {
		return nil
	}

	// A take counts when the store took it; a second copy that was taken again counts once for the caller.
	if id := fmt.Sprint(msg.inc, msg.ask.Seq); !m.counted[id] {
		m.counted[id] = true

		return m.admit(msg.ask.Takes[0])
	}

	return nil
}

func (m *model) carryAnswer() {
	if len(m.answers) == 0 {
		return
	}

	i := m.c.pick("answer", int64(len(m.answers)))
	msg := m.answers[i]

	if m.c.pick("double", 4) > 0 {
		m.answers = append(m.answers[:i], m.answers[i+1:]...)
	}

	p := m.holders[msg.to]
	if p.incarnation == msg.inc {
		ok := p.lease.Hear(m.now+p.offset, &msg.answer)
		if ok && msg.answer.Taken != 0 {
			p.paid = append(p.paid, payment{holder.Payment{Epoch: storeEpoch, N: msg.cost, End: p.lease.CountsUntil(m.now + p.offset)}, msg.window})
		}

		m.logf("%d hears %d: %v, balance %d", msg.inc, msg.answer.Seq, ok, p.lease.Balance())
	}
}

func (m *model) lose() {
	if len(m.asks) > 0 && m.c.pick("lose", 2) == 0 {
		m.asks = m.asks[1:]
	}

	if len(m.answers) > 0 && m.c.pick("lose", 2) == 0 {
		m.answers = m.answers[1:]
	}
}

func TestNothingAboveTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(rapidChooser{t})
		m.verbose = true

		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			if err := m.step(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The same in bulk: LEASEWAY_MODEL_RUNS sets how many runs, 20,000 by default, and
// LEASEWAY_MODEL_FROM with which of them to begin. All of them are run either way.
func TestNothingAboveTheBoundInBulk(t *testing.T) {
	t.Parallel()

	runs := 20_000
	if s := os.Getenv("LEASEWAY_MODEL_RUNS"); s != "" {
		runs, _ = strconv.Atoi(s)
	}

	from, _ := strconv.Atoi(os.Getenv("LEASEWAY_MODEL_FROM"))

	for i := range runs {
		seed := uint64((from + i) % runs)
		if err := runSeed(seed, false); err != nil {
			t.Fatalf("seed %d: %v", seed, runSeed(seed, true))
		}
	}
}

func runSeed(seed uint64, verbose bool) error {
	m := newModel(randChooser{rand.New(rand.NewPCG(seed, 1))})
	m.verbose = verbose

	for range 100 {
		if err := m.step(); err != nil {
			return err
		}
	}

	return nil
}
