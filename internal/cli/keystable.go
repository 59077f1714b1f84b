package cli

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
)

// writeKeyTable prints a ledger for people.
func writeKeyTable(w io.Writer, v *shownKey) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, values ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, values...))
	}

	line("rule", "%s", v.Rule)
	line("key", "%s", v.Key)

	if v.Known {
		line("tokens", "%d of %d", v.Tokens, v.Capacity)
		line("last refill", "%s", cmp.Or(v.LastRefillTS, "-"))
		line("full at", "%s", cmp.Or(v.FullAt, "-"))
		line("leased", "%d, to %d holders", v.Leased, len(v.Leases))
		line("algorithm", "%s, version %d", v.Algorithm, v.Version)
	} else {
		line("tokens", "%s", "all: nothing is kept of it (--rules says how many that are)")
	}

	if v.LostAt != "" {
		line("lost", "%s: what was known before is gone, and counts as used", v.LostAt)
	}

	line("now", "%s", v.At)
	line("kept", "%s", keptAs(v))

	if err := table.Flush(); err != nil || len(v.Leases) == 0 {
		return err
	}

	fmt.Fprintln(w)
	fmt.Fprintln(table, "HOLDER\tLEFT\tGRANTED\tSPENT\tEXPIRES\tVERSION")

	for _, l := range v.Leases {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t%d\n", l.Holder, l.Left, l.Granted, l.Spent, l.Expires, l.Version)
	}

	return table.Flush()
}

// keptAs says where the ledger is in Redis, as one would look at it there.
func keptAs(v *shownKey) string {
	switch p := v.Redis; p.Kept {
	case "group":
		return fmt.Sprintf("in the hash %s, field %s (base64), slot %d, for %d ms more", p.Key, p.Field, p.Slot, p.LivesMS)
	case "held":
		return fmt.Sprintf("by itself in %s, slot %d, for %d ms more", p.Key, p.Slot, p.LivesMS)
	default:
		return fmt.Sprintf("nowhere; it would be in %s, slot %d", p.Key, p.Slot)
	}
}
