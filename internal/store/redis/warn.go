package redis

import (
	"context"
	"log/slog"
	"strings"
)

// warn says which nodes may forget ledgers that still count: all keys have a time
// to live, so every policy but noeviction takes them when memory is short. Whoever
// is forgotten has a full bucket again. A node that does not tell is left out.
func (s *Store) warn(ctx context.Context, log *slog.Logger) {
	for address, node := range s.client.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			continue
		}

		policy, most := field(info, "maxmemory_policy"), field(info, "maxmemory")
		if policy != "" && policy != "noeviction" && most != "0" {
			log.Warn("this Redis forgets counts when its memory is full: set maxmemory-policy to noeviction",
				"address", address, "maxmemoryPolicy", policy, "maxmemory", most)
		}
	}
}

// field returns the value of one line of INFO, "" if it has none.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r")

	return value
}
