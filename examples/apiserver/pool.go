package main

import (
	"context"
	"time"
)

// pool is the workers of this server: as many pieces of work are done at a time, and whoever finds no worker waits for one.
type pool struct {
	workers chan struct{}
	waited  func(time.Duration) // is told how long each piece of work waited
}

func newPool(workers int, waited func(time.Duration)) *pool {
	return &pool{workers: make(chan struct{}, workers), waited: waited}
}

// do has a worker busy for so long, as a stand-in for what an API does. The error is ctx's: nobody waits for the answer any more.
func (p *pool) do(ctx context.Context, work time.Duration) error {
	came := time.Now()

	select {
	case p.workers <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.workers }()

	p.waited(time.Since(came))

	timer := time.NewTimer(work)
	defer timer.Stop()

	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
