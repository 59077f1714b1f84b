package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	loadCallers = 16          // connections, each with one request at a time
	loadTime    = time.Second // of one measurement
	loadWarmup  = 200         // requests of each connection before it
)

// loadColumns are what loaded measures of a server that is called what.
func loadColumns(what string) []string {
	return []string{"requests/s", "µs, half are faster", "µs, 99 % are faster", "µs of the " + what + "'s processors, a request"}
}

// question is one request over HTTP/1.1 as it is sent, and the answer that it must get.
type question struct {
	text   string
	status int
	bytes  int64 // of the body
}

// loaded measures a server under load, which open starts with files in dir. All columns of a round are of one measurement.
func loaded(name string, side side, ask question, open func(dir string) (server, error)) entrant {
	var row [4]float64

	return entrant{name: name, side: side, measure: func(column int) (sample, error) {
		if column > 0 {
			return sample{value: row[column]}, nil
		}

		dir, err := os.MkdirTemp("", "bench")
		if err != nil {
			return sample{}, err
		}

		defer os.RemoveAll(dir)

		s, err := open(dir)
		if err != nil {
			return sample{}, err
		}

		defer s.stop()

		row, err = underLoad(s, ask)

		return sample{value: row[0]}, err
	}}
}

// underLoad has all callers ask for a while.
func underLoad(s server, ask question) (row [4]float64, err error) {
	var (
		all, warm sync.WaitGroup
		mu        sync.Mutex
		times     []time.Duration
		errs      []error
	)

	start := make(chan struct{})

	warm.Add(loadCallers)

	for range loadCallers {
		all.Go(func() {
			mine, err := askAgain(s.address, ask, warm.Done, start)

			mu.Lock()
			defer mu.Unlock()

			times, errs = append(times, mine...), append(errs, err)
		})
	}

	warm.Wait()

	began, before := time.Now(), usedByFamily(s.process)

	close(start)
	all.Wait()

	took, used := time.Since(began), usedByFamily(s.process)-before

	if err := errors.Join(errs...); err != nil || len(times) == 0 {
		return row, fmt.Errorf("%d requests were answered: %w", len(times), err)
	}

	slices.Sort(times)

	n := len(times)

	return [4]float64{
		float64(n) / took.Seconds(), micros(times[n/2]), micros(times[n*99/100]), micros(used) / float64(n),
	}, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// askAgain asks again and again over one connection, and returns how long each answer took once start is closed; ready is called
// when the connection is warm, or failed.
func askAgain(address string, ask question, ready func(), start <-chan struct{}) (times []time.Duration, err error) {
	ready = sync.OnceFunc(ready)
	defer ready()

	conn, err := net.Dial("tcp", address) //nolint:noctx // a benchmark ends by itself
	if err != nil {
		return nil, err
	}

	defer conn.Close()

	reader := bufio.NewReader(conn)

	for range loadWarmup {
		if err := ask.put(conn, reader); err != nil {
			return nil, err
		}
	}

	ready()
	<-start

	began := time.Now()

	for before := began; before.Sub(began) < loadTime; {
		if err := ask.put(conn, reader); err != nil {
			return nil, err
		}

		now := time.Now()
		times = append(times, now.Sub(before))
		before = now
	}

	return times, nil
}

// put asks once. A server that answers otherwise than it should would win.
func (q question) put(conn io.Writer, reader *bufio.Reader) error {
	if _, err := io.WriteString(conn, q.text); err != nil {
		return err
	}

	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		return err
	}

	defer resp.Body.Close()

	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != q.bytes || resp.StatusCode != q.status {
		return fmt.Errorf("%d with %d bytes (%w)", resp.StatusCode, n, err)
	}

	return nil
}
