package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	// pings is how often a node is asked for the time that an answer takes.
	pings = 9

	libraryPrefix = "leaseway_"
)

// A Survey is what a Redis says of itself, for whoever judges whether counts are safe there.
type Survey struct {
	Mode     Mode
	TLS      bool
	Nodes    []Node            // sorted by address, replicas too where they are known
	Cluster  map[string]string // of CLUSTER INFO; nil without a cluster
	Sentinel []SentinelNode    // empty without sentinels
	Data     Data
	Library  string // the name of the library of functions that this version loads
}

// Mode is how the servers belong together.
type Mode string

// The modes.
const (
	ModeSingle   Mode = "single"
	ModeCluster  Mode = "cluster"
	ModeSentinel Mode = "sentinel"
)

// A Node is one server. What it did not say, or not to this user, is missing.
type Node struct {
	Address   string
	Err       error // it did not answer
	Info      map[string]string
	Settings  map[string]string // of CONFIG GET; nil if that is forbidden
	Libraries []string          // of functions, those of Leaseway; nil if that is forbidden
	Latency   time.Duration     // the median of some PINGs
	Ahead     time.Duration     // of its clock before this machine's
}

// A SentinelNode is one of the sentinels.
type SentinelNode struct {
	Address string
	Err     error  // it does not answer, or no majority of them could fail over
	Says    string // of the majority
}

// Data is what the keys of the prefix say of themselves.
type Data struct {
	Err      error         // why some of what follows is not known; nil: all is
	ID       uint64        // 0 for none
	Age      time.Duration // since it began, or was last said to be kept; 0 if that is not known
	Marks    int           // how many slots should have one
	Missing  int           // how many have none: their data was lost, and nobody asked since
	Unread   int           // how many could not be read, as their server does not answer: nothing is known of them
	Lost     int           // how many say that data was lost
	LastLoss int64         // µs since the Unix epoch
	Holders  int64         // that live
}

// Survey looks at the servers, and changes nothing. What it could not learn is missing in what it returns.
func (r *Reader) Survey(ctx context.Context) (*Survey, error) {
	library, err := newLibrary()
	if err != nil {
		return nil, err
	}

	v := &Survey{Mode: ModeSingle, TLS: r.config.TLS != nil, Library: library.name}

	switch r.client.Mode() {
	case rueidis.ClientModeCluster:
		v.Mode = ModeCluster

		text, err := r.client.Do(ctx, r.client.B().ClusterInfo().Build()).ToString()
		if err == nil {
			v.Cluster = fields(text)
		}
	case rueidis.ClientModeSentinel:
		v.Mode = ModeSentinel
		v.Sentinel = r.sentinels(ctx)
	case rueidis.ClientModeStandalone:
	}

	nodes := r.client.Nodes()
	v.Nodes = make([]Node, 0, len(nodes))

	var (
		wait sync.WaitGroup
		mu   sync.Mutex
	)

	for address, client := range nodes {
		wait.Go(func() {
			node := r.lookAt(ctx, client)
			node.Address = address

			mu.Lock()
			defer mu.Unlock()

			v.Nodes = append(v.Nodes, node)
		})
	}

	wait.Wait()
	slices.SortFunc(v.Nodes, func(a, b Node) int { return strings.Compare(a.Address, b.Address) })

	v.Data = r.data(ctx)

	return v, nil
}

// lookAt asks one server for what it says of itself.
func (r *Reader) lookAt(ctx context.Context, node rueidis.Client) (n Node) {
	text, err := node.Do(ctx, node.B().Info().Build()).ToString()
	if err != nil {
		n.Err = err

		return n
	}

	n.Info = fields(text)

	settings := []string{"maxmemory-policy", "min-replicas-to-write", "appendonly", "save", "stop-writes-on-bgsave-error",
		"cluster-require-full-coverage"}
	if list, err := node.Do(ctx, node.B().ConfigGet().Parameter(settings...).Build()).AsStrMap(); err == nil {
		n.Settings = list
	}

	if list, err := node.Do(ctx, node.B().FunctionList().Libraryname(libraryPrefix+"*").Build()).ToArray(); err == nil {
		n.Libraries = libraryNames(list)
	}

	n.Latency, n.Ahead, n.Err = r.timesOf(ctx, node)

	return n
}

// timesOf returns how long an answer takes, and by how much the server's clock is ahead of ours, if it counts.
func (r *Reader) timesOf(ctx context.Context, node rueidis.Client) (latency, ahead time.Duration, err error) {
	took, offsets := make([]time.Duration, pings), make([]time.Duration, pings)

	for i := range pings {
		began := time.Now()

		var micros int64

		if r.clock == nil {
			micros, err = timeOf(ctx, node, nil)
		} else {
			micros, err = began.UnixMicro(), node.Do(ctx, node.B().Ping().Build()).Error()
		}

		if err != nil {
			return 0, 0, err
		}

		took[i] = time.Since(began)

		if r.clock != nil {
			continue // it is not asked, and may be forbidden to ask
		}

		offsets[i] = time.UnixMicro(micros).Sub(began.Add(took[i] / 2))
	}

	slices.Sort(took)
	slices.Sort(offsets)

	return took[pings/2], offsets[pings/2], nil
}

func libraryNames(list []rueidis.RedisMessage) []string {
	names := []string{}

	for i := range list {
		library, err := list[i].AsMap()
		if err != nil {
			continue
		}

		name := library["library_name"]
		if text, err := name.ToString(); err == nil {
			names = append(names, text)
		}
	}

	slices.Sort(names)

	return names
}

// data reads the marks and what says whose data it is. A node that does not answer hides its own part only.
func (r *Reader) data(ctx context.Context) (d Data) {
	marks := r.names.marks()
	asks := make([]rueidis.Completed, 0, len(marks)+2)

	for _, mark := range marks {
		asks = append(asks, r.client.B().Get().Key(mark).Build())
	}

	asks = append(asks, r.client.B().Get().Key(r.names.id()).Build(), r.client.B().Pttl().Key(r.names.id()).Build())
	d.Marks = len(marks)
	answers := r.client.DoMulti(ctx, asks...) // together: those who wait for a dead node leave no time for others

	for _, answer := range answers[:len(marks)] {
		d.mark(answer)
	}

	id, err := textOf(answers[len(marks)])
	d.fail(err)

	if len(id) == 8 {
		d.ID = binary.BigEndian.Uint64([]byte(id))

		left, err := answers[len(marks)+1].AsInt64()
		d.fail(err)

		if left > 0 {
			d.Age = keepData - time.Duration(left)*time.Millisecond
		}
	}

	now, err := timeOf(ctx, r.client, r.clock)
	if err != nil {
		d.fail(err)

		return d
	}

	d.Holders, err = r.client.Do(ctx, r.client.B().Zcount().Key(r.names.holders()).Min(decimal(now)).Max("+inf").Build()).AsInt64()
	d.fail(err)

	return d
}

// mark takes in what a mark says.
func (d *Data) mark(answer rueidis.RedisResult) {
	mark, err := textOf(answer)
	if err == nil && mark == "" {
		d.Missing++

		return
	}

	var loss int64
	if err == nil {
		loss, err = lossIn(mark)
	}

	if err != nil {
		d.Unread++
		d.fail(fmt.Errorf("the marks of the data: %w", err))
	} else if loss > 0 {
		d.Lost++
		d.LastLoss = max(d.LastLoss, loss)
	}
}

// fail keeps the first error.
func (d *Data) fail(err error) {
	if d.Err == nil {
		d.Err = err
	}
}

// sentinels asks each sentinel whether enough of them could fail over.
func (r *Reader) sentinels(ctx context.Context) []SentinelNode {
	list := make([]SentinelNode, len(r.config.Addresses))

	for i, address := range r.config.Addresses {
		list[i].Address = address

		option := r.config.client(ctx)
		option.InitAddress, option.ForceSingleClient, option.Sentinel = []string{address}, true, rueidis.SentinelOption{}
		option.Username, option.Password = r.config.Sentinel.Username, r.config.Sentinel.Password

		client, err := rueidis.NewClient(option)
		if err != nil {
			list[i].Err = err

			continue
		}

		command := client.B().Arbitrary("SENTINEL", "CKQUORUM", r.config.Sentinel.Master).Build()
		list[i].Says, list[i].Err = client.Do(ctx, command).ToString()
		client.Close()
	}

	return list
}

// fields reads the lines of INFO.
func fields(text string) map[string]string {
	all := map[string]string{}
	text = strings.TrimPrefix(text, "txt:") // of a text whose form RESP3 tells, which the driver leaves on

	for line := range strings.SplitSeq(text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			all[name] = value
		}
	}

	return all
}
