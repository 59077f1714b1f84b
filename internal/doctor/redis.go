package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/store/redis"
)

const (
	leastMajor  = 7 // the first Redis with functions
	slotsOfAll  = 16384
	slow        = 5 * time.Millisecond
	tooSlow     = 15 * time.Millisecond // requests wait for 20 ms
	clockSpread = time.Second
	memoryWarn  = 0.8
	memoryBad   = 0.95
)

// Redis looks at the Redis that config names, within ctx. With the findings it returns the id of
// the data that is there, 0 for none.
func Redis(ctx context.Context, config *redis.Config) ([]Finding, uint64) {
	reader, err := redis.NewReader(ctx, *config)
	if err != nil {
		return []Finding{noConnection(ctx, config, err)}, 0
	}
	defer reader.Close()

	survey, err := reader.Survey(ctx)
	if err != nil {
		return []Finding{noConnection(ctx, config, err)}, 0
	}

	return judge(survey), survey.Data.ID
}

// judge says what to think of a survey.
func judge(v *redis.Survey) []Finding {
	return slices.Concat(
		judgeNodes(v), judgeEncryption(v), judgeVersion(v), judgeCluster(v), judgeSentinels(v), judgeMemory(v), judgeClock(v),
		judgeFunctions(v), judgeLatency(v), judgeReplicas(v), judgePersistence(v), judgeData(v),
	)
}

// masters are the nodes that answer and count.
func masters(v *redis.Survey) (list []*redis.Node) {
	for i := range v.Nodes {
		if v.Nodes[i].Err == nil && v.Nodes[i].Info["role"] == "master" {
			list = append(list, &v.Nodes[i])
		}
	}

	return list
}

func judgeNodes(v *redis.Survey) []Finding {
	r := report{check: checkConnection}

	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Err != nil {
			r.add(Bad, n.Address, fmt.Sprintf("it does not answer: %v", n.Err),
				"start it, or have the cluster forget it; its keys have an outage until a replica has taken over")
		} else if n.Info["loading"] == "1" {
			r.add(Bad, n.Address, "it is still reading its data from the disk", "wait; its keys have an outage until then")
		}
	}

	many := len(masters(v))
	if many == 0 {
		r.add(Bad, "", "no node is a master", "promote one, or name the right servers with --store: a replica takes no writes")
	}

	return r.or("%s and %s, a %s", several(many, "master"), several(len(v.Nodes)-many, "replica"), mode(v))
}

func mode(v *redis.Survey) string {
	switch v.Mode {
	case redis.ModeCluster:
		return "cluster"
	case redis.ModeSentinel:
		return "master behind sentinels"
	case redis.ModeSingle:
	}

	return "single server"
}

func judgeEncryption(v *redis.Survey) []Finding {
	r := report{check: checkEncryption}

	for i := range v.Nodes {
		host, _, err := net.SplitHostPort(v.Nodes[i].Address)
		if ip := net.ParseIP(host); !v.TLS && err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			r.add(Warn, v.Nodes[i].Address, "connections to other machines are not encrypted: the password travels as it is",
				"give Redis a certificate (tls-port) and write --store rediss://…, or see to it that nobody else is in that network")

			break
		}
	}

	if v.TLS {
		return r.or("TLS")
	}

	return r.or("none, and none is needed on this machine")
}

func judgeVersion(v *redis.Survey) []Finding {
	r := report{check: checkVersion}

	var versions []string

	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Err != nil {
			continue
		}

		text := n.Info["redis_version"]
		versions = append(versions, text)
		major, _, _ := strings.Cut(text, ".")

		if number, err := strconv.Atoi(major); err != nil || number < leastMajor {
			r.add(Bad, n.Address, fmt.Sprintf("Redis %s has no functions, which the counts need", text), "upgrade to Redis 7.0 or later")
		} else if name := n.Info["server_name"]; name != "" && name != "redis" {
			r.add(Warn, n.Address, fmt.Sprintf("it is %s, which speaks the same protocol and is untested", name),
				"test it, or use Redis 7.0 or later")
		}
	}

	return r.or("Redis %s", distinct(versions))
}

func judgeCluster(v *redis.Survey) []Finding {
	if v.Mode != redis.ModeCluster {
		return nil
	}

	r := report{check: checkCluster}

	covered, _ := strconv.Atoi(v.Cluster["cluster_slots_ok"])

	switch state := v.Cluster["cluster_state"]; {
	case v.Cluster == nil:
		r.add(Warn, "", "this user may not ask for the state of the cluster", "allow it: ACL SETUSER … +cluster|info")
	case state != "ok":
		r.add(Bad, "", fmt.Sprintf("the cluster is %q, and %d of %d slots are served", state, covered, slotsOfAll),
			"start the nodes that are missing, or give their slots to others: redis-cli --cluster fix")
	case covered != slotsOfAll:
		r.add(Bad, "", fmt.Sprintf("%d of %d slots are served", covered, slotsOfAll), "give the rest to nodes: redis-cli --cluster fix")
	}

	for _, n := range masters(v) {
		if n.Settings["cluster-require-full-coverage"] == "yes" {
			r.add(Warn, n.Address, "when one master dies, all keys have an outage until its replica has taken over",
				"CONFIG SET cluster-require-full-coverage no on every node: then only its own keys have")
		}
	}

	return r.or("all slots are served, by %s nodes", v.Cluster["cluster_size"])
}

func judgeSentinels(v *redis.Survey) []Finding {
	if v.Mode != redis.ModeSentinel {
		return nil
	}

	r := report{check: checkSentinels}

	for i := range v.Sentinel {
		if s := &v.Sentinel[i]; s.Err != nil {
			r.add(Bad, s.Address, fmt.Sprintf("no failover can come from it: %v", s.Err),
				"start it, check its password (--store-sentinel-password-file), and have three of them or more")
		}
	}

	if len(v.Sentinel) < 3 && len(r.list) == 0 {
		r.add(Warn, "", several(len(v.Sentinel), "sentinel")+" named, which are too few to be sure that one is there",
			"name three or more with --store redis+sentinel://…")
	}

	return r.or("%s, who agree that they could fail over", several(len(v.Sentinel), "sentinel"))
}

func judgeMemory(v *redis.Survey) []Finding {
	r := report{check: checkMemory}
	policies, bounded := []string{}, 0

	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Err != nil {
			continue
		}

		policy, most := n.Info["maxmemory_policy"], number(n, "maxmemory")
		policies = append(policies, policy)

		if policy != "noeviction" {
			state := Bad
			if most == 0 {
				state = Warn // nothing is evicted without a bound
			}

			r.add(state, n.Address, fmt.Sprintf("maxmemory-policy is %s: when its memory is full it forgets counts, and who is forgotten "+
				"has a full budget again", policy), "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file")
		}

		if most == 0 || n.Info["role"] != "master" {
			continue
		}

		bounded++

		if used := number(n, "used_memory") / most; used >= memoryWarn {
			state := Warn
			if used >= memoryBad {
				state = Bad
			}

			r.add(state, n.Address, fmt.Sprintf("%.0f %% of maxmemory is in use; at 100 %% every write is refused, and each rule's "+
				"onUnavailable decides", 100*used), "raise maxmemory, or add nodes and move slots to them")
		}
	}

	if bounded == 0 {
		return r.or("%s, without a bound (maxmemory is 0)", distinct(policies))
	}

	return r.or("%s, within the maxmemory of %s", distinct(policies), several(bounded, "master"))
}

// number is a field of INFO; 0 if there is none.
func number(n *redis.Node, field string) float64 {
	f, _ := strconv.ParseFloat(n.Info[field], 64)

	return f
}

func judgeClock(v *redis.Survey) []Finding {
	r := report{check: checkClock}
	list := masters(v)

	if len(list) == 0 {
		return nil
	}

	ahead := func(a, b *redis.Node) int { return int(a.Ahead - b.Ahead) }
	first, last := slices.MinFunc(list, ahead), slices.MaxFunc(list, ahead)

	if spread := last.Ahead - first.Ahead; spread > clockSpread {
		r.add(Warn, last.Address, fmt.Sprintf("its clock is %v ahead of %s: their windows end at other times",
			spread.Round(time.Millisecond), first.Address),
			"run an NTP client on every machine")
	} else if last.Ahead.Abs() > clockSpread {
		r.add(Warn, last.Address, fmt.Sprintf("its clock is %v ahead of this machine's: days and months of a calendar are told by the "+
			"coordinators' clocks", last.Ahead.Round(time.Millisecond)), "run an NTP client on every machine")
	}

	return r.or("within %v of this machine's", max(last.Ahead.Abs(), first.Ahead.Abs()).Round(time.Millisecond)+time.Millisecond)
}

func judgeFunctions(v *redis.Survey) []Finding {
	r := report{check: checkFunctions}

	var others []string

	for _, n := range masters(v) {
		if n.Libraries == nil {
			r.add(Warn, n.Address, "this user may not list the functions", "allow it: ACL SETUSER … +function|list")

			continue
		}

		if !slices.Contains(n.Libraries, v.Library) && v.Data.ID != 0 {
			r.add(Warn, n.Address, "it does not know the functions of this version ("+v.Library+")",
				"nothing, if the coordinators are of another version; else the next call loads them, which takes the right +function|load")
		}

		for _, library := range n.Libraries {
			if library != v.Library {
				others = append(others, library)
			}
		}
	}

	if len(others) > 0 {
		r.add(Warn, "", "functions of other versions are there: "+distinct(others),
			"when no coordinator of those versions runs any more, on each master: FUNCTION DELETE and their name (50 kB each)")
	}

	if v.Data.ID == 0 && v.Data.Err == nil {
		return r.or("none yet: the first coordinator loads them")
	}

	return r.or("%s, on every master", v.Library)
}

func judgeLatency(v *redis.Survey) []Finding {
	r := report{check: checkLatency}

	var worst time.Duration

	for _, n := range masters(v) {
		worst = max(worst, n.Latency)

		if n.Latency >= slow {
			state := Warn
			if n.Latency >= tooSlow {
				state = Bad
			}

			r.add(state, n.Address, fmt.Sprintf("it answers in %v, and requests without a lease wait for 20 ms at most",
				n.Latency.Round(100*time.Microsecond)),
				"put coordinators near Redis; look for slow commands of others (SLOWLOG GET) and for swapping")
		}
	}

	return r.or("%v from here", worst.Round(10*time.Microsecond))
}
