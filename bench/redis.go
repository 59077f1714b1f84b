package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// needsRedis is what a contest lacks that redisOnly leaves without entrants.
const needsRedis = "there is no redis-server on the PATH"

// storeCalls measures a limiter that asks its store about each request.
func storeCalls() contest {
	return timed(contest{
		name: "redis", title: "A store call for each request",
		about: "One hot key in one Redis beside the process, whose limit holds over a fleet as Leaseway's does. " +
			"What is measured is the time of one call; that it works in Redis meanwhile comes on top.",
		entrants: redisEntrants(), needs: needsRedis,
	})
}

func redisEntrants() []entrant {
	return redisOnly([]entrant{
		timedDecider(decider{"Leaseway, `Rule.Take`", ours, leasewayTake}),
		timedDecider(decider{"redis_rate, one Redis", peer, redisRate}),
	})
}

// redisOnly is none of the entrants where there is no redis-server.
func redisOnly(entrants []entrant) []entrant {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil
	}

	return entrants
}

func timedDecider(d decider) entrant {
	return entrant{name: d.name, side: d.side, open: func() (opened, error) {
		l, err := d.make(endless())

		return opened{worker: loop(func(int) bool { return l.take(hotKey) }), close: l.close}, err
	}}
}

func redisRate(q quota) (limiter, error) {
	ctx := context.Background()

	client, stop, err := startRedis(ctx)
	if err != nil {
		return limiter{}, err
	}

	l := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: q.limit, Burst: q.limit, Period: q.window}

	return limiter{take: func(key string) bool {
		r, err := l.Allow(ctx, key, limit)

		return err == nil && r.Allowed == 1
	}, close: stop}, nil
}

// startRedis starts a server of its own that keeps nothing, on a free port of this machine.
func startRedis(ctx context.Context) (client *redis.Client, stop func(), err error) {
	client, process, err := redisProcess(ctx)
	if err != nil {
		return nil, nil, err
	}

	return client, func() {
		_ = client.Close()
		_ = process.Process.Kill()
		_ = process.Wait()
	}, nil
}

// redisProcess is startRedis, with the process, which is to be killed.
func redisProcess(ctx context.Context) (*redis.Client, *exec.Cmd, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, nil, err
	}

	server := exec.CommandContext(ctx, "redis-server", //nolint:gosec // the port is a number
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	if err := server.Start(); err != nil {
		return nil, nil, err
	}

	client := redis.NewClient(&redis.Options{Addr: net.JoinHostPort("127.0.0.1", port)})

	for range 500 { // 5 s
		if client.Ping(ctx).Err() == nil {
			return client, server, nil
		}

		<-time.After(10 * time.Millisecond)
	}

	_ = client.Close()
	_ = server.Process.Kill()
	_ = server.Wait()

	return nil, nil, fmt.Errorf("redis-server does not answer on port %s", port)
}

func freePort(ctx context.Context) (string, error) {
	var config net.ListenConfig

	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}

	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return "", errors.New("a TCP listener has no TCP address")
	}

	return strconv.Itoa(address.Port), listener.Close()
}
