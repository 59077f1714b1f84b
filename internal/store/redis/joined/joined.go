// Package joined makes one cluster of Redis servers that were just started on
// this machine: for tests, the demo and the benchmarks, and much faster than
// redis-cli does. Its neighbours are redistest, internal/demo and bench/, each of which starts
// servers in a way of its own.
package joined

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	hashSlots = 16384
	pollEvery = 20 * time.Millisecond
)

// Server is a Redis server that runs with cluster-enabled, on 127.0.0.1.
type Server struct {
	Port, BusPort string
	// Ask sends the server one command, and returns its answer as text.
	Ask func(ctx context.Context, command ...string) (string, error)
}

// Join makes a cluster of the servers, within ctx: the first half are masters,
// with equal parts of all slots, and each of the others is a replica of the
// master at the same place. It returns when all know that all is well.
func Join(ctx context.Context, servers []Server) error {
	masters := len(servers) / 2

	for i, s := range servers {
		if err := s.meet(ctx, i, &servers[0]); err != nil {
			return err
		}

		if i < masters {
			from, to := i*hashSlots/masters, (i+1)*hashSlots/masters-1
			if _, err := s.Ask(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to)); err != nil {
				return err
			}
		}
	}

	for i, s := range servers[masters:] {
		master, err := servers[i].Ask(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}

		// It must have heard of its master first.
		if err := Eventually(ctx, func() error { _, err := s.Ask(ctx, "CLUSTER", "REPLICATE", master); return err }); err != nil {
			return err
		}
	}

	for _, s := range servers {
		if err := Eventually(ctx, func() error { return s.ready(ctx, len(servers)) }); err != nil {
			return err
		}
	}

	return nil
}

// meet introduces server i to the first.
func (s *Server) meet(ctx context.Context, i int, first *Server) error {
	if _, err := s.Ask(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
		return err
	}

	_, err := s.Ask(ctx, "CLUSTER", "MEET", "127.0.0.1", first.Port, first.BusPort)

	return err
}

// ready returns an error unless the server sees a cluster of so many that is well.
func (s *Server) ready(ctx context.Context, servers int) error {
	info, err := s.Ask(ctx, "CLUSTER", "INFO")
	if err != nil {
		return err
	}

	for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_known_nodes:%d", servers)} {
		if !strings.Contains(info, want) {
			return fmt.Errorf("port %s: no %s yet", s.Port, want)
		}
	}

	nodes, err := s.Ask(ctx, "CLUSTER", "NODES")
	if err == nil && strings.Count(nodes, "slave") != servers-servers/2 {
		err = fmt.Errorf("port %s: not all replicas are known yet", s.Port)
	}

	return err
}

// Eventually calls f now and then until it has no error, and returns the last one if ctx ends first.
func Eventually(ctx context.Context, f func() error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()

	for {
		err := f()
		if err == nil {
			return nil
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
