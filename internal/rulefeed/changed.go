package rulefeed

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// changed says which overrides were changed after one version, by rule and key; no keys of a rule are all of them, and nil is
// all of all rules, where there were many or it is not known.
func (f *Feed) changed(ctx context.Context, after uint64) map[string][]string {
	if after == 0 {
		return nil
	}
	records, err := f.config.Store.History(ctx, rulestore.Page{Versions: true, Limit: changedMost})
	if err != nil {
		return nil
	}
	changed := map[string][]string{}
	for i := range records {
		if records[i].Version <= after {
			return changed
		}
		if !collect(changed, &records[i]) {
			return nil
		}
	}
	return nil // there are more than were read
}

// changedMost is how many versions are looked at for what they changed.
const changedMost = 100

// collect adds what a version changed, and reports whether that is known.
func collect(changed map[string][]string, record *rulestore.Record) bool {
	known := int64(0)
	for _, d := range record.Differences {
		if !strings.HasPrefix(d.Place, rulestore.OverridePlace) {
			continue
		}
		document := d.After
		if document == nil {
			document = d.Before
		}
		var o struct {
			Rule      string `json:"rule"`
			Key       string `json:"key"`
			KeyHex    string `json:"keyHex"`
			KeySHA256 string `json:"keySha256"`
		}
		if json.Unmarshal(document, &o) != nil || o.Rule == "" {
			return false
		}
		known++
		key, err := hex.DecodeString(o.KeyHex)
		switch {
		case o.KeySHA256 != "" || err != nil: // whose key it is only the store can tell
			changed[o.Rule] = []string{}
		case changed[o.Rule] == nil || len(changed[o.Rule]) > 0: // or else it is all of the rule already
			changed[o.Rule] = append(changed[o.Rule], o.Key+string(key))
		}
	}
	return known == record.Overrides
}
