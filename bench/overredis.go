package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaseway/leaseway/internal/store"
	redisstore "github.com/leaseway/leaseway/internal/store/redis"
)

const (
	redisKeys = 1 << 12 // keys whose leases are renewed in turn
	rawPasses = 8       // how often the raw entrant renews each
	inFlight  = 4       // calls that the raw entrant has under way, so that Redis never waits for it
)

// redisColumn is the keys of one call, and whose processor time counts.
type redisColumn struct {
	size  int
	redis bool // Redis's alone
	name  string
}

func redisColumns() []redisColumn {
	return []redisColumn{
		{16, false, "ns, 16 a call"}, {256, false, "ns, 256 a call"}, {256, true, "ns of Redis alone, 256 a call"},
	}
}

// grantsOverRedis measures what a coordinator adds to what Redis does for a lease.
func grantsOverRedis() contest {
	c := contest{
		name: "coordinator", title: "A coordinator's grants over Redis", goal: 2, against: "the raw calls", rounds: 5,
		about: "A lease is reported as spent and raised again, in one Redis. Processor time for each, in nanoseconds, of all " +
			"processes together: Redis, the coordinator and its caller. The raw calls are the very calls of Redis functions that a " +
			"coordinator makes, written out beforehand and sent through one connection, whose answers nobody reads: twice their " +
			"time are half as many grants a second and processor.",
		needs: needsRedis,
	}

	for _, column := range redisColumns() {
		c.columns = append(c.columns, column.name)
	}

	if _, err := exec.LookPath("redis-server"); err != nil {
		return c
	}

	c.entrants = []entrant{
		{name: "raw calls, pipelined", side: peer, measure: rawCalls},
		overRedis("the Redis store alone", overStore),
		overRedis("coordinator, called in its process", inProcess),
		overRedis("coordinator, over gRPC, signed and verified", overRPC(true)),
	}

	return c
}

func overRedis(name string, open func(store.Store) (granter, error)) entrant {
	return entrant{name: name, side: ours, measure: func(column int) (sample, error) {
		s, server, err := startStore()
		if err != nil {
			return sample{}, err
		}

		defer server.stop()

		g, err := open(s)
		if err != nil {
			return sample{}, err
		}

		defer g.close()

		g.used = server.used(redisColumns()[column].redis)

		return g.measure(redisColumns()[column].size, newRenewals(redisKeys))
	}}
}

// redisServer is a server with an empty store.
type redisServer struct {
	client *redis.Client
	stop   func()
}

func startStore() (*redisstore.Store, redisServer, error) {
	ctx := context.Background()

	client, stop, err := startRedis(ctx)
	if err != nil {
		return nil, redisServer{}, err
	}

	s, err := redisstore.New(ctx, redisstore.Config{Addresses: []string{client.Options().Addr}})
	if err != nil {
		stop()
	}

	return s, redisServer{client, stop}, err
}

// used returns what tells the processor time that Redis has used so far, with that of this process or alone.
func (r redisServer) used(alone bool) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		info, err := r.client.Info(context.Background(), "cpu").Result()
		if err != nil {
			return 0, err
		}

		sum := time.Duration(0)

		for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
			_, rest, _ := strings.Cut(info, name)
			text, _, _ := strings.Cut(rest, "\r\n")

			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, fmt.Errorf("INFO cpu: %w", err)
			}

			sum += time.Duration(seconds * float64(time.Second))
		}

		if alone {
			return sum, nil
		}

		return sum + processorTime(), nil
	}
}

// rawCalls measures the calls alone. What the ledgers answer is known beforehand: each ask is granted in whole, which
// is checked at the end, through the store.
func rawCalls(column int) (sample, error) {
	s, server, err := startStore()
	if err != nil {
		return sample{}, err
	}

	defer server.stop()

	g, err := overStore(s)
	if err != nil {
		return sample{}, err
	}

	defer g.close()

	size, r := redisColumns()[column].size, newRenewals(redisKeys)
	if err := r.all(&g, size); err != nil {
		return sample{}, err
	}

	calls, err := r.written(s, size)
	if err != nil {
		return sample{}, err
	}

	used := server.used(redisColumns()[column].redis)

	began, err := used()
	if err != nil {
		return sample{}, err
	}

	if err := pipeline(server.client.Options().Addr, calls, size); err != nil {
		return sample{}, err
	}

	ended, err := used()
	if err != nil {
		return sample{}, err
	}

	return sample{value: float64((ended - began).Nanoseconds()) / float64(rawPasses*redisKeys)}, r.all(&g, size)
}

// written returns the next rawPasses renewals of all leases as Redis is sent them, one text for each call.
func (r *renewals) written(s *redisstore.Store, size int) (calls []string, err error) {
	terms, err := grantTerms()
	if err != nil {
		return nil, err
	}

	for range rawPasses * len(r.keys) / size {
		batch := r.asks(size)
		ops := make([]store.Op, size)

		for i := range ops {
			ops[i] = store.Op{Key: store.Key{Rule: "r", Key: batch.Asks[i].Key}, Terms: terms, Ask: batch.Asks[i].Ask}
			r.known[(r.next+i)%len(r.keys)].Granted += grantSize
		}

		r.next += size

		var text strings.Builder

		for _, command := range s.Commands(ops) {
			fmt.Fprintf(&text, "*%d\r\n", len(command))

			for _, argument := range command {
				fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(argument), argument)
			}
		}

		calls = append(calls, text.String())
	}

	return calls, nil
}

// pipeline sends calls of size keys each through one connection, inFlight of them at once.
func pipeline(address string, calls []string, size int) error {
	conn, err := net.Dial("tcp", address) //nolint:noctx // a server of our own on this machine
	if err != nil {
		return err
	}
	defer conn.Close()

	room, sent := make(chan struct{}, inFlight), make(chan error, 1)

	go func() {
		var err error

		for _, call := range calls {
			room <- struct{}{}

			if err == nil {
				_, err = io.WriteString(conn, call)
			}
		}

		sent <- err
	}()

	replies := bufio.NewReaderSize(conn, 1<<16)

	var wrong error

	for range calls {
		for range size {
			if wrong == nil {
				wrong = skipReply(replies)
			}
		}

		<-room
	}

	return errors.Join(wrong, <-sent)
}

// skipReply reads one bulk string, of those that the function returns.
func skipReply(from *bufio.Reader) error {
	head, err := from.ReadSlice('\n')
	if err == nil && head[0] == '*' { // which says how many follow
		head, err = from.ReadSlice('\n')
	}

	if err != nil {
		return err
	}

	if head[0] != '$' {
		return fmt.Errorf("a reply of Redis: %q", head)
	}

	size, err := strconv.Atoi(strings.TrimSpace(string(head[1:])))
	if err != nil {
		return err
	}

	_, err = from.Discard(size + len("\r\n"))

	return err
}
