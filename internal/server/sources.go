package server

import (
	"context"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/counts"
	"github.com/leaseway/leaseway/internal/rpc"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/store/redis"
)

// sources are the counts of all parts of the engine.
func (e *engine) sources() []source {
	list := []source{limiterCounts(e.limiter)}

	if e.rules != nil {
		list = append(list, ruleFileCounts(e.rules))
	}

	if e.feed != nil {
		list = append(list, feedCounts(e.feed), overrideCounts(e.overrides))
	}

	if e.coordinator != nil {
		list = append(list, coordinatorCounts(e.coordinator), e.storeCounts)
	}

	if e.client != nil {
		list = append(list, clientCounts(e.client))
	}

	return list
}

func coordinatorCounts(c *coordinator.Coordinator) source {
	return func(s *scrape) {
		stats := c.Stats()
		s.counter("coordinator_acquires_total", "Batches of asks that the coordinator answered.", stats.Acquires)

		for code, n := range map[string]int64{
			"ok": stats.OK, "unknown_rule": stats.UnknownRule, "behind": stats.Behind,
			"unavailable": stats.Unavailable, "invalid": stats.Invalid,
		} {
			s.counter("coordinator_asks_total", "Asks that the coordinator answered, by how.", n, label{"code", code})
		}

		s.counter("recovered_panics_total", panicsHelp, stats.Panics, label{"in", "coordinator"})
		s.gauge("coordinator_watchers", "Holders that watch the rules, this process included.", stats.Watchers)
		s.gauge("coordinator_holders", "Holders of the fleet that live.", stats.Live)
	}
}

func storeCountsOf(m *memory.Store) source {
	return func(s *scrape) {
		stats := m.Stats()
		s.gauge("store_ledgers", "Ledgers that the store keeps.", stats.Keys)
		s.gauge("store_ledgers_held", "Ledgers with leases.", stats.Held)
		s.gauge("store_leases", "Leases that the store knows.", stats.Leases)
		s.counter("store_evicted_total", "Ledgers forgotten to make room although they said something.", stats.Evicted)
		s.counter("store_evicted_over_limit_total", "Of them, ledgers whose bucket was empty.", stats.EvictedOverLimit)
		s.counter("store_evicted_held_total", "Of them, ledgers with leases.", stats.EvictedHeld)
	}
}

func redisCounts(r *redis.Store) source {
	return func(s *scrape) {
		stats := r.Stats()
		s.counter("redis_ops_total", "Ops that went to Redis, each on one ledger.", stats.Ops)
		s.counter("redis_failures_total", "Of them, those without an answer.", stats.Failures)
		s.counter("redis_again_total", "Those that went out again, since a node had refused them before it did anything.", stats.Again)
		s.counter("redis_loads_total", "How often nodes were told the functions that they run.", stats.Loads)
		s.counter("redis_lost_slots_total", "Parts of the data, of 1024, that this server found to be lost.", stats.LostSlots)
		s.counter("redis_lost_leases_total", "Leases that Redis did not know before they ended: grants that a failover lost, mostly.",
			stats.LostLeases)
		s.counter("redis_lost_tokens_total",
			"Tokens spent of leases that Redis knew no grant of: a failover lost it, or a changed rule took it back.", stats.LostTokens)
	}
}

func grpcCounts(server *rpc.Server) source {
	return func(s *scrape) {
		stats := server.Stats()
		s.counter("grpc_calls_total", "gRPC calls and streams that began.", stats.Calls)
		s.counter("grpc_rejected_total", "gRPC calls without a valid token.", stats.Rejected)
		s.counter("grpc_refused_total", "Batches that came while there was no room for them.", stats.Refused)
		s.gauge("grpc_inside", "Batches that are worked on, or wait for that.", stats.Inside)
		s.counter("grpc_invalid_total", "Batches that could not be read.", stats.Invalid)
		s.counter("signatures_total", "Answers and rule sets that were signed.", stats.Signatures)
		s.counter("recovered_panics_total", panicsHelp, stats.Panics, label{"in", "grpc"})
	}
}

const panicsHelp = counts.PanicsHelp

func httpCounts(panics *atomic.Int64) source {
	return func(s *scrape) { s.counter("recovered_panics_total", panicsHelp, panics.Load(), label{"in", "http"}) }
}

const withoutTokenHelp = "Those heard of lately that show no token, while there are tokens of role holder and none is required."

// bareCallers are who would be shut out if tokens were required.
func bareCallers(door *admin.Door) source {
	return func(s *scrape) {
		if door == nil {
			return
		}

		holders, services := door.Without(context.Background())
		s.gauge("without_token", withoutTokenHelp, int64(holders), label{"who", "holders"})
		s.gauge("without_token", withoutTokenHelp, int64(services), label{"who", "services"})
	}
}

func buildInfo() source {
	return func(s *scrape) { s.gauge("build_info", "1, with what runs as labels.", 1, label{"version", Version()}) }
}
