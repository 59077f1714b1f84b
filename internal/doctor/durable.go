package doctor

import (
	"fmt"
	"time"

	"github.com/leaseway/leaseway/internal/store/redis"
)

// What follows is about what is left when a server dies.

func judgeReplicas(v *redis.Survey) []Finding {
	r := report{check: checkReplicas}
	least := -1

	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Err != nil {
			continue
		}

		if n.Info["role"] != "master" {
			if n.Info["master_link_status"] != "up" {
				r.add(Bad, n.Address, "it does not hear its master, so it would take over with old counts",
					"look at its log, and at the network between them")
			}

			continue
		}

		replicas := int(number(n, "connected_slaves"))
		if least < 0 || replicas < least {
			least = replicas
		}

		if replicas == 0 {
			r.add(Warn, n.Address, "it has no replica: when it dies its keys have an outage until it is back",
				"give it a replica; what a failover costs is what it was ahead of it, mostly milliseconds")
		}

		if need := n.Settings["min-replicas-to-write"]; need != "" && need != "0" && replicas < int(asNumber(need)) {
			r.add(Bad, n.Address, fmt.Sprintf("min-replicas-to-write is %s and it has %d: it refuses every write", need, replicas),
				"start its replicas, or lower min-replicas-to-write")
		}
	}

	return r.or("%d at each master or more", max(0, least))
}

func asNumber(text string) float64 {
	return number(&redis.Node{Info: map[string]string{"": text}}, "")
}

func judgePersistence(v *redis.Survey) []Finding {
	r := report{check: checkPersistence}
	without := 0

	for _, n := range masters(v) {
		switch snapshots, known := n.Settings["save"]; {
		case n.Info["rdb_last_bgsave_status"] == "err" && snapshots != "" && n.Settings["stop-writes-on-bgsave-error"] != "no":
			r.add(Bad, n.Address, "its last snapshot failed, so it refuses every write (MISCONF)",
				"make room on its disk and check its log; CONFIG SET stop-writes-on-bgsave-error no has it write meanwhile")
		case n.Info["aof_enabled"] == "1" && n.Info["aof_last_write_status"] == "err":
			r.add(Bad, n.Address, "it cannot write its append-only file", "make room on its disk and check its log")
		case n.Info["aof_enabled"] == "0" && snapshots != "":
			r.add(Warn, n.Address, "only snapshots are on its disk: if it starts from one it has old counts, looks whole, and gives the "+
				"tokens since then again",
				"CONFIG SET appendonly yes, or CONFIG SET save '' to start empty, and the same in its configuration file")
		case n.Info["aof_enabled"] == "0" && known:
			without++
		}
	}

	if without > 0 {
		return r.or("nothing is on the disk of %s: one that starts again before its replica has taken over starts empty, with all "+
			"budgets used up", several(without, "master"))
	}

	return r.or("an append-only file at each master")
}

// young is data that may have begun after a loss that nobody saw.
const young = 24 * time.Hour

func judgeData(v *redis.Survey) []Finding {
	r := report{check: checkData}
	d := v.Data

	switch {
	case d.Err != nil:
		r.add(Bad, "", fmt.Sprintf("whether all of it is there cannot be told, since %d of %d parts cannot be read: %v",
			d.Unread, d.Marks, d.Err),
			"see the findings above; a user needs the rights that the documentation lists")

		if d.Missing == 0 || d.Missing+d.Unread == d.Marks { // perhaps there is none yet
			break
		}

		r.add(Warn, "", lostParts(&d), whyLost)
	case d.ID == 0 && d.Missing == d.Marks:
		return r.or("none yet under this prefix: the first coordinator begins it")
	case d.ID == 0:
		r.add(Warn, "", "what says whose data it is was lost", "start a coordinator: it says it again")
	case d.Missing > 0:
		r.add(Warn, "", lostParts(&d), whyLost)
	case d.Lost > 0:
		r.add(Warn, "", fmt.Sprintf("%d of %d parts lost their data, last at %s", d.Lost, d.Marks,
			time.UnixMicro(d.LastLoss).UTC().Format(time.RFC3339)),
			"if that was not meant, find out why; it is over once the budgets have refilled")
	}

	since := ""
	if d.Age > 0 && d.Age < young {
		since = fmt.Sprintf(", begun %v ago with full budgets, unless a coordinator knew from its disk of data before",
			d.Age.Round(time.Second))
	}

	return r.or("id %016x, complete%s; %s", d.ID, since, several(int(d.Holders), "live holder"))
}

const whyLost = "find out why (a restart without data on the disk, FLUSHALL, eviction); rules may say afterLoss: full"

func lostParts(d *redis.Data) string {
	return fmt.Sprintf("%d of %d parts lost their data, and nobody has asked for it since: their budgets begin as used up",
		d.Missing, d.Marks)
}
