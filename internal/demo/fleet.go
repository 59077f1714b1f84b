package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leaseway/leaseway/internal/rpc"
)

// servers is how many API servers share the limits; coordinators, how many coordinators share a cluster.
const (
	servers      = 3
	coordinators = 3
)

// askWithin bounds how long a server may take to say what it knows.
const askWithin = 5 * time.Second

// fleet is the coordinators and the API servers, each a process of its own, the files that they need, and what keeps the counts.
type fleet struct {
	program string
	dir     string   // temporary
	key     string   // the coordinators' public key
	grpc    []string // the coordinators' addresses, the same after a restart
	http    []string

	redis        *redisCluster // nil where the one coordinator has the counts in memory
	coordinators []*child
	apis         [servers]*child
	client       *http.Client // for questions, not for traffic
}

// startFleet starts all of it under the rules of document: one coordinator with the counts in memory, or three with a cluster of
// Redis servers. Close what it returns.
func startFleet(ctx context.Context, cfg Config, document string) (*fleet, error) {
	f := &fleet{program: cfg.Program, client: &http.Client{Timeout: askWithin}}

	n := 1
	if cfg.Redis {
		n = coordinators
	}

	err := f.prepare(document, n)
	if err == nil && cfg.Redis {
		f.redis, err = startRedis(ctx, f.program, f.dir)
	}

	for i := 0; i < n && err == nil; i++ {
		err = f.startCoordinator(ctx, i)
	}

	if err == nil {
		err = f.startAPIs(ctx)
	}

	if err != nil {
		f.close()

		return nil, err
	}

	return f, nil
}

// prepare writes the files and finds free ports for n coordinators.
func (f *fleet) prepare(document string, n int) error {
	dir, err := os.MkdirTemp("", "leaseway-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}

	f.dir = dir

	public, err := rpc.GenerateKeyFile(f.path("signing.key"))
	if err != nil {
		return err
	}

	f.key = rpc.FormatPublicKey(public)

	const private = 0o600
	if err := os.WriteFile(f.path("rules.yaml"), []byte(document), private); err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}

	addresses, err := freeAddresses(2 * n)
	if err != nil {
		return err
	}

	f.grpc, f.http, f.coordinators = addresses[:n], addresses[n:], make([]*child, n)

	return nil
}

func (f *fleet) path(name string) string { return filepath.Join(f.dir, name) }

// freeAddresses finds different ports below those that systems hand out to connections: the coordinator must find its own free
// again after its restart, and nobody may connect from it meanwhile.
func freeAddresses(n int) ([]string, error) {
	const lowest, ports, tries = 20_000, 12_000, 100

	var last error

	free := make([]string, 0, n)

	for range tries + n {
		if len(free) == n {
			return free, nil
		}

		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(ports))

		listener, err := net.Listen("tcp", address) //nolint:noctx // it does not wait
		if err != nil {
			last = err

			continue
		}
		defer listener.Close() //nolint:gocritic // once all are found, so that none is found twice

		free = append(free, address)
	}

	return nil, fmt.Errorf("find %d free ports on 127.0.0.1: %w", n, last)
}

// startCoordinator runs "leaseway serve", for the second time with the data directory of the first.
func (f *fleet) startCoordinator(ctx context.Context, i int) (err error) {
	name := "coordinator"
	if len(f.coordinators) > 1 {
		name = fmt.Sprintf("coordinator-%d", i+1)
	}

	args := []string{
		"serve", "--rules", f.path("rules.yaml"), "--listen", f.http[i], "--grpc-listen", f.grpc[i],
		"--data-dir", f.path(name), "--signing-key-file", f.path("signing.key"), "--log-format", "json", "--name", name,
	}

	if f.redis != nil {
		args = append(args, "--store", f.redis.url())
	}

	f.coordinators[i], err = startChild(ctx, f.program, "the "+name, args...)

	return err
}

func (f *fleet) startAPIs(ctx context.Context) error {
	var (
		all    sync.WaitGroup
		errs   [servers]error
		keyArg = "--coordinator-key=" + f.key
	)

	for i := range f.apis {
		all.Go(func() {
			name := apiName(i)
			k := i % len(f.grpc) // each begins with another one
			order := strings.Join(append(slices.Clone(f.grpc[k:]), f.grpc[:k]...), ",")
			f.apis[i], errs[i] = startChild(ctx, f.program, name, APICommand, "--name", name, "--coordinator", order, keyArg)
		})
	}

	all.Wait()

	return errors.Join(errs[:]...)
}

// apiName is what people call API server i.
func apiName(i int) string { return fmt.Sprintf("api-%d", i+1) }

// stats asks every API server about keys of a rule.
func (f *fleet) stats(ctx context.Context, q statsQuestion) (all [servers]apiStats, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return all, fmt.Errorf("ask for statistics: %w", err)
	}

	var errs [servers]error

	for i, api := range f.apis {
		if all[i], err = f.ask(ctx, api, body); err != nil {
			errs[i] = fmt.Errorf("ask %s for statistics: %w", api.name, err)
		}
	}

	return all, errors.Join(errs[:]...)
}

func (f *fleet) ask(ctx context.Context, api *child, body []byte) (s apiStats, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+api.address()+statsPath, bytes.NewReader(body))
	if err != nil {
		return s, err
	}

	resp, err := f.client.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("status %s", resp.Status)
	}

	err = json.NewDecoder(io.LimitReader(resp.Body, 2*maxQuestion)).Decode(&s)

	return s, err
}

// close kills every process, waits for it, and removes the files.
func (f *fleet) close() {
	for _, c := range append(f.apis[:], f.coordinators...) {
		if c != nil {
			c.kill()
		}
	}

	if f.redis != nil {
		f.redis.close()
	}

	f.client.CloseIdleConnections()

	if f.dir != "" {
		_ = os.RemoveAll(f.dir) // the system cleans up temporary files, too
	}
}

// started says which processes there are.
func (f *fleet) started() string {
	apis := fmt.Sprintf("%d API servers (pids %d, %d, %d), all on 127.0.0.1; this is pid %d.",
		servers, f.apis[0].pid(), f.apis[1].pid(), f.apis[2].pid(), os.Getpid())

	if f.redis == nil {
		return fmt.Sprintf("Started the coordinator (pid %d) and %s", f.coordinators[0].pid(), apis)
	}

	var pids []string
	for _, n := range f.redis.nodes() {
		pids = append(pids, strconv.Itoa(n.pid()))
	}

	return fmt.Sprintf("Started %d Redis servers (pids %s), three masters and a replica of each; %d coordinators (pids %d, %d, %d) "+
		"over them; and %s",
		len(pids), strings.Join(pids, ", "), coordinators, f.coordinators[0].pid(), f.coordinators[1].pid(), f.coordinators[2].pid(), apis)
}
