package server

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/store/redis"
)

// seenFile is the file, in a coordinator's state directory, that remembers where there was data.
const seenFile = "redis.json"

// storeWithin bounds how long a start waits for Redis: a coordinator without its store decides nothing.
const storeWithin = 10 * time.Second

// openStore opens the store that the settings name, and returns it with its counts.
func openStore(ctx context.Context, config *Config, log *slog.Logger) (store.Store, source, error) {
	to, err := config.RedisConfig(log)
	if err != nil {
		return nil, nil, err
	}

	if to == nil {
		// The store takes the data directory for this process, or says who has it. It lives until Close.
		kept, err := memory.New(memory.Config{Dir: config.stateDir(), Logger: log}) //nolint:contextcheck // as said
		if err != nil {
			return nil, nil, fmt.Errorf("%w (--data-dir names the directory)", err)
		}

		return kept, storeCountsOf(kept), nil
	}

	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()

	to.Logger, to.Seen = log, filepath.Join(config.stateDir(), seenFile)

	kept, err := redis.New(ctx, *to)
	if err != nil {
		return nil, nil, fmt.Errorf("%w (--store names it; leaseway doctor with the same --store flags says what to do)", err)
	}

	log.Info("counting in Redis, shared with all coordinators that do", "addresses", to.Addresses, "prefix", to.Prefix,
		"tls", to.TLS != nil)

	return kept, redisCounts(kept), nil
}
