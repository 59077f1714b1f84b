package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	// patiencePart is the part of a call's time after which it no longer waits for a
	// node that is silent while others answer. A holder gives a call five times as
	// long as its requests wait, so this is three quarters of what they do.
	patiencePart = 0.15
	// leastPatience is how long a node was silent at least when that says something: a call may be given less.
	leastPatience = 5 * time.Millisecond
	// missesMost is how many groups in a row a node may leave without an answer before it is taken for silent.
	missesMost = 3
	// silentFor is how long nothing is asked of a silent node, half to one and a half times; then one group goes out to find out.
	silentFor = 100 * time.Millisecond
	// lookWithin bounds how long a look at the cluster may take.
	lookWithin = time.Second
)

// errSilent is why nothing was asked of a node that did not answer of late.
var errSilent = errors.New("its node does not answer; it will be asked again soon")

// errLate is why an op has no answer though its call did not wait to its end.
var errLate = errors.New("its node has not answered yet, though others have")

// A node is a master as far as it is asked: whether it answers.
//
//	well ── missesMost groups without an answer ──> silent ── an answer to the one group now and then ──> well
type node struct {
	address string
	client  atomic.Pointer[rueidis.Client] // of this node alone; nil while it is not known
	apart   atomic.Int64                   // until when each op is a command of its own: ns since the store's start
	misses  atomic.Int64                   // in a row
	until   atomic.Int64                   // when silent, when it may be asked again: ns since the store's start
}

// admits reports whether the node may be asked at now, by a call that waits for so long: always when it is well, and once in a while
// when it is not.
func (n *node) admits(now int64, patience time.Duration) bool {
	if n.misses.Load() < missesMost {
		return true
	}

	until := n.until.Load()

	return now >= until && n.until.CompareAndSwap(until, now+int64(patience)+jittered(silentFor))
}

// heard notes whether the node answered.
func (n *node) heard(answered bool, now int64) {
	if answered {
		n.misses.Store(0)
	} else if n.misses.Add(1) >= missesMost {
		n.rest(now + jittered(silentFor))
	}
}

// several returns what may be used at now to ask the node for several ops at once; nil where it may not.
func (n *node) several(now int64) rueidis.Client {
	client := n.client.Load()
	if client == nil || now < n.apart.Load() {
		return nil
	}

	return *client
}

// rest has nothing asked of the node before an instant, or for as long as it is anyway: what is heard late, of an earlier call,
// does not send out the next one before the last has come back.
func (n *node) rest(to int64) {
	for {
		until := n.until.Load()
		if until >= to || n.until.CompareAndSwap(until, to) {
			return
		}
	}
}

// jittered returns half to one and a half times d, ns.
func jittered(d time.Duration) int64 { return int64(d)/2 + rand.Int64N(int64(d)) }

// layout says which node has which of the slots that are used, as of the last
// look. What has moved since is found all the same, by way of the wrong node.
type layout struct {
	nodes  []*node
	bySlot [slotCount]uint16 // index of nodes
}

// alone is the layout of one server, or of a cluster that does not tell.
func alone(client rueidis.Client) *layout {
	n := &node{address: "the server"}
	if client.Mode() != rueidis.ClientModeCluster {
		n.client.Store(&client)
	}

	return &layout{nodes: []*node{n}}
}

// look brings the layout up to date, in the background, unless somebody does
// already. It is not part of the call that finds it out of date.
func (s *Store) look() {
	if s.looking.Swap(true) {
		return
	}

	s.work.Go(func() {
		defer s.looking.Store(false)

		ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
		defer cancel()

		s.lookNow(ctx)
	})
}

// lookNow asks which node has which slots. Nodes that are known keep what is known of them.
func (s *Store) lookNow(ctx context.Context) {
	ranges, err := s.client.Do(ctx, s.client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return // one server; or it does not tell now
	}

	old := s.layout.Load()
	fresh := &layout{}

	for _, part := range ranges {
		if r, ok := readSlots(part); ok {
			fresh.put(r, old)
		}
	}

	if len(fresh.nodes) > 0 {
		clients := s.client.Nodes()

		for _, n := range fresh.nodes {
			if client, ok := clients[n.address]; ok {
				n.client.Store(&client)
			} else {
				n.client.Store(nil)
			}
		}

		s.layout.Store(fresh)
	}
}

// put notes that a node has the slots of r.
func (l *layout) put(r slotRange, old *layout) {
	k := l.add(r.address, old)
	for slot := range l.bySlot {
		if at := int64(slot) * (clusterSlots / slotCount); r.from <= at && at <= r.to {
			l.bySlot[slot] = k
		}
	}
}

// add returns the index of the node at address, as it was in the old layout if it was there.
func (l *layout) add(address string, old *layout) uint16 {
	for i, n := range l.nodes {
		if n.address == address {
			return uint16(i)
		}
	}

	n := &node{address: address}

	for _, known := range old.nodes {
		if known.address == address {
			n = known
		}
	}

	l.nodes = append(l.nodes, n)

	return uint16(len(l.nodes) - 1)
}

// A slotRange is hash slots of the cluster that one master has.
type slotRange struct {
	from, to int64
	address  string
}

// readSlots reads one part of CLUSTER SLOTS: first slot, last slot, master, replicas.
func readSlots(part rueidis.RedisMessage) (r slotRange, ok bool) {
	fields, err := part.ToArray()
	if err != nil || len(fields) < 3 {
		return r, false
	}

	master, err := fields[2].ToArray()
	if err != nil || len(master) < 2 {
		return r, false
	}

	var errs [4]error

	var host string

	var port int64

	r.from, errs[0] = fields[0].AsInt64()
	r.to, errs[1] = fields[1].AsInt64()
	host, errs[2] = master[0].ToString()
	port, errs[3] = master[1].AsInt64()
	r.address = net.JoinHostPort(host, decimal(port))

	return r, errors.Join(errs[:]...) == nil
}
