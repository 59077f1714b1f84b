package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// servers are the listeners of this program, which stop together.
type servers struct {
	all    []*http.Server
	served sync.WaitGroup
	failed chan error // the first that ends by itself
}

// start serves handler on an address, and says in the log where.
func (s *servers) start(ctx context.Context, address string, handler http.Handler, log *slog.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}

	if s.failed == nil {
		s.failed = make(chan error, 1)
	}

	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	s.all = append(s.all, server)

	s.served.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			select {
			case s.failed <- err:
			default:
			}
		}
	})

	log.Info("listening", "http", listener.Addr().String())

	return nil
}

// wait returns when ctx ends, or with the error of a server that cannot go on.
func (s *servers) wait(ctx context.Context) error {
	select {
	case err := <-s.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// stop lets requests end until closing does.
func (s *servers) stop(closing context.Context) (err error) {
	for _, server := range s.all {
		err = errors.Join(err, server.Shutdown(closing))
	}

	s.served.Wait()

	return err
}
