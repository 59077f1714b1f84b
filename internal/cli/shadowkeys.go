package cli

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/leaseway/leaseway/internal/counts"
)

// usualTop is of how many keys a report says how often each rule would have refused them.
const usualTop = 5

// shadowReport is what is reported, as JSON.
type shadowReport struct {
	Shadows []shadow           `json:"shadows"`
	Keys    []counts.ShadowKey `json:"keys"`
}

func writeShadowKeys(w io.Writer, keys []counts.ShadowKey) error {
	if len(keys) == 0 {
		return nil
	}

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nBY\tWOULD HAVE REFUSED\tHOW OFTEN")

	for _, k := range keys {
		by, key, often := "rule "+k.Rule, k.Key, strconv.FormatInt(k.Refused, 10)

		if k.Rule == "" {
			by = k.Shedder + " shedder"
		}

		switch {
		case key == "":
			key = "(everybody)"
		case strconv.Quote(key) != `"`+key+`"`: // a terminal would do something else with it
			key = strconv.Quote(key)
		}

		if k.Over > 0 {
			often = fmt.Sprintf("%d to %d", k.Refused-k.Over, k.Refused)
		}

		fmt.Fprintf(table, "%s\t%s\t%s\n", by, key, often)
	}

	return table.Flush()
}
