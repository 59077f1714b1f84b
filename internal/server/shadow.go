package server

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// How many keys of each rule /shadow names.
const (
	usualTop = 10
	mostTop  = 100
)

// ShadowText is the answer of /shadow: the shedders that are in shadow mode, and whom they and the rules in shadow mode would have
// refused, since the start of this server.
type ShadowText struct {
	Shedders []string        `json:"shedders"`
	Keys     []ShadowKeyText `json:"keys"`
}

// ShadowKeyText is one of them.
type ShadowKeyText struct {
	Rule    string `json:"rule,omitempty"`
	Shedder string `json:"shedder,omitempty"`
	Key     string `json:"key"`            // an API key, or the key of a rule that says secret, as a hint
	Refused int64  `json:"refused"`        // never too low
	Over    int64  `json:"over,omitempty"` // by how much refused may be too high
}

// inShadow names the shedders of set that are in shadow mode; never nil.
func inShadow(set *rule.Set) []string {
	names := []string{}
	if set == nil {
		return names
	}

	if w := set.Shedders.Worker; w != nil && w.Mode == rule.Shadow {
		names = append(names, rule.LimiterWorker.String())
	}

	if f := set.Shedders.Fleet; f != nil && f.Mode == rule.Shadow {
		names = append(names, rule.LimiterFleet.String())
	}

	return names
}

// serveShadow answers "GET /shadow?top=N", with N of 0 to 100 for each rule, 10 unless said.
func serveShadow(limiter *leaseway.Limiter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		top := usualTop

		if text := r.URL.Query().Get("top"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || n > mostTop {
				writeProblem(w, http.StatusBadRequest, fmt.Sprintf("top is %.40q, and is a whole number from 0 to %d", text, mostTop))

				return
			}

			top = n
		}

		answer := ShadowText{Shedders: inShadow(limiter.Rules()), Keys: []ShadowKeyText{}}

		for _, k := range limiter.ShadowKeys(top) {
			text := ShadowKeyText{Rule: k.Rule, Key: k.Key, Refused: k.Refused, Over: k.Over}
			if k.Rule == "" {
				text.Shedder = k.Shedder.String()
			}

			answer.Keys = append(answer.Keys, text)
		}

		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, answer)
	}
}
