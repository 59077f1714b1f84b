package redis

import (
	"cmp"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// Nobody starts over a Redis that cannot be used, and the error says where it is.
func TestOpenRefuses(t *testing.T) {
	server := redistest.NewServer(t)
	if err := server.Do(t.Context(), "CONFIG", "SET", "requirepass", "secret"); err != nil {
		t.Fatal(err)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	gone := listener.Addr().String()
	_ = listener.Close()

	for name, test := range map[string]struct {
		config Config
		says   string
	}{
		"no address":     {Config{}, "Addresses is empty"},
		"nobody there":   {Config{Addresses: []string{gone}}, gone},
		"wrong password": {Config{Addresses: []string{server.Address}, Password: "guess"}, "WRONGPASS"},
		"no password":    {Config{Addresses: []string{server.Address}}, "NOAUTH"},
		"braces":         {Config{Addresses: []string{server.Address}, Prefix: "{x}"}, "brace"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), proctest.Patience)

		s, err := New(ctx, test.config)
		if err == nil {
			_ = s.Close(ctx)
		}

		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want an error with %q", name, err, test.says)
		}

		cancel()
	}
}

// A Redis that may forget counts is named at the start, and one that cannot is not.
func TestEvictionIsWarnedOf(t *testing.T) {
	server := redistest.NewServer(t)

	for policy, warned := range map[string]bool{"noeviction": false, "volatile-lru": true} {
		for setting, value := range map[string]string{"maxmemory": "100mb", "maxmemory-policy": policy} {
			if err := server.Do(t.Context(), "CONFIG", "SET", setting, value); err != nil {
				t.Fatal(err)
			}
		}

		var log strings.Builder

		s, err := New(t.Context(), Config{Addresses: []string{server.Address}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}

		_ = s.Close(t.Context())

		if got := strings.Contains(log.String(), "forgets counts"); got != warned {
			t.Errorf("%s: warned %v: %s", policy, got, log.String())
		}
	}
}

// A first start is said, since all that is lost while nobody looks seems to be one; whoever comes later says nothing.
func TestAFirstStartIsSaid(t *testing.T) {
	server := redistest.NewServer(t)

	for _, first := range []bool{true, false} {
		var log strings.Builder

		s, err := New(t.Context(), Config{Addresses: []string{server.Address}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}

		_ = s.Close(t.Context())

		if got := strings.Contains(log.String(), "every budget begins full"); got != first {
			t.Errorf("said %v, want %v: %s", got, first, log.String())
		}
	}

	survey, err := openReader(t, Config{Addresses: []string{server.Address}}).Survey(t.Context())
	if err != nil || survey.Data.Age <= 0 || survey.Data.Age > time.Minute {
		t.Errorf("the data is %v old (%v)", survey.Data.Age, err)
	}
}

// openAt opens a store on servers of a test's own.
func openAt(tb testing.TB, addresses []string) *Store {
	tb.Helper()

	return openWith(tb, Config{Addresses: addresses})
}

// openWith opens a store whose servers are not taken for dead while a busy machine lets them wait.
func openWith(tb testing.TB, cfg Config) *Store {
	tb.Helper()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	cfg.DialTimeout, cfg.DeadAfter = proctest.Patience, cmp.Or(cfg.DeadAfter, proctest.Patience)

	s, err := New(ctx, cfg)
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() { _ = s.Close(context.Background()) })

	return s
}

// Coordinators that start together over new data agree whose it is, and call it new.
func TestStartTogether(t *testing.T) {
	prefix := servers.Prefix()
	addresses := servers.Shared(t).Addresses()

	var (
		wait sync.WaitGroup
		ids  [5]uint64
	)

	for i := range ids {
		wait.Go(func() {
			s, err := New(t.Context(), Config{Addresses: addresses, Prefix: prefix})
			if err != nil {
				t.Error(err)

				return
			}

			defer s.Close(context.Background())

			ids[i] = s.ID()
		})
	}

	wait.Wait()

	for _, id := range ids {
		if id == 0 || id != ids[0] {
			t.Fatalf("the ids are %v", ids)
		}
	}

	s := open(t, prefix, nil)

	for _, mark := range s.names.marks() {
		text, err := s.client.Do(t.Context(), s.client.B().Get().Key(mark).Build()).ToString()
		if err != nil || len(text) != 8 || binary.LittleEndian.Uint64([]byte(text)) != 0 {
			t.Fatalf("mark %s of new data: %q (%v)", mark, text, err)
		}
	}
}
