package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// write makes a change in the name of whoever called.
func (d *Door) write(ctx context.Context, change *rulestore.Change, conditional bool) (*rulestore.Record, error) {
	change.Author = caller(ctx).name

	record, err := d.config.Store.Write(ctx, change)
	if err != nil {
		return nil, explain(err, conditional)
	}

	if len(change.Rules)+len(change.Settings) > 0 {
		d.view.wrote(record)
	}

	if slices.ContainsFunc(change.Settings, aboutCallers) {
		_, _ = d.view.state(ctx) // so that it holds here with the answer; when it fails the server hears of it a moment later
	}

	log := d.log.With("action", change.Action, "target", change.Target, "author", change.Author)

	switch {
	case record.Version > 0:
		log.Info("changed", "version", record.Version)
	case change.Overrides != nil:
		log.Info("nothing to change") // such as an override that there was not
	default:
		log.Info("changed") // a budget
	}

	return record, nil
}

// aboutCallers says whether a change of a setting is about who may call.
func aboutCallers(change rulestore.SettingChange) bool {
	return change.Name == requireHolderToken || strings.HasPrefix(change.Name, tokenPrefix)
}

// fits checks what no store would take, for a try. Whether the rules fit together is for package rule.
func fits(state *rulestore.State, change *rulestore.Change) error {
	change.Author = "dry run"
	if err := change.Check(); err != nil {
		return explain(err, false)
	}

	rules := slices.Clone(state.Set.Rules)

	for _, one := range change.Rules {
		rules = slices.DeleteFunc(rules, func(r *rule.Rule) bool { return r.ID == one.ID })
		if one.Rule != nil {
			rules = append(rules, one.Rule)
		}
	}

	rows, err := rulestore.Canonical(&rule.Set{Rules: rules})
	if err != nil {
		return explain(err, false)
	}

	settings := mapsWith(state.Settings, change.Settings)
	if _, err := rule.Parse("rules", rulestore.Document(0, rows, settings)); err != nil {
		return explain(&rulestore.Error{Code: rulestore.Invalid, Message: "what comes of the change is no rule document", Err: err}, false)
	}

	return nil
}

// mapsWith is settings after changes to them.
func mapsWith(settings map[string]json.RawMessage, changes []rulestore.SettingChange) map[string]json.RawMessage {
	after := make(map[string]json.RawMessage, len(settings)+len(changes))
	maps.Copy(after, settings)

	for _, one := range changes {
		delete(after, one.Name)

		if one.Value != nil {
			after[one.Name] = one.Value
		}
	}

	return after
}

// etag is the entity tag of a version.
func etag(version uint64) string {
	if version == 0 {
		return ""
	}

	return `"` + strconv.FormatUint(version, 10) + `"`
}

// conditionOf reads If-Match and If-None-Match. have is the version that is there; 0 for none.
func conditionOf(have uint64, ifMatch, ifNoneMatch string) (rulestore.Condition, error) {
	failed := func(detail string) (rulestore.Condition, error) {
		return 0, refuse(http.StatusPreconditionFailed, "%s", detail)
	}

	switch {
	case ifNoneMatch == "*" && have != 0:
		return failed("If-None-Match: there is one already, of version " + strconv.FormatUint(have, 10))
	case ifNoneMatch == "*":
		return rulestore.Absent, nil
	case ifNoneMatch != "":
		return 0, refuse(http.StatusBadRequest, "If-None-Match takes *, for what must be new")
	case ifMatch == "":
		return rulestore.Whatever, nil
	case have == 0:
		return failed("If-Match: there is none")
	case ifMatch == "*":
		return rulestore.Condition(have), nil
	}

	// A store compares again when it writes; here is the better answer.
	for one := range strings.SplitSeq(ifMatch, ",") {
		one = strings.TrimSpace(one)
		version, err := strconv.ParseUint(strings.Trim(one, `"`), 10, 64)

		if err != nil || len(one) < 2 || one[0] != '"' {
			return 0, refuse(http.StatusBadRequest, "If-Match takes the ETag of an answer, such as \"12\", in quotes")
		}

		if version == have {
			return rulestore.Condition(have), nil
		}
	}

	return failed(fmt.Sprintf("If-Match: it is at version %d now; read it again, and change what is there", have))
}
