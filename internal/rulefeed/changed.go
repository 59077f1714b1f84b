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
	changed, read := map[string][]string{}, 0
	for i := range records {
		if records[i].Version <= after {
			return changed
		}
		if records[i].Overrides == 0 {
			continue
		}
		read++
		if read > readMost {
			return nil
		}
		whole, err := f.config.Store.History(ctx, rulestore.Page{Version: records[i].Version}) // a list has no differences
		if err != nil || len(whole) != 1 || !collect(changed, &whole[0]) {
			return nil
		}
	}
	return nil // there are more than were read
}

const (
	// changedMost is how many versions are looked at for what they changed.
	changedMost = 100
	// readMost is how many of them may have changed overrides: each is read by itself.
	readMost = 10
)

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
