package counts

import (
	"fmt"
	"strconv"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// How many keys of each rule /shadow names.
const (
	usualTop = 10
	mostTop  = 100
)

// Shadow is the answer of /shadow: the shedders that are in shadow mode, and whom they and the rules in shadow mode would have
// refused, since the start of the process.
type Shadow struct {
	Shedders []string    `json:"shedders"`
	Keys     []ShadowKey `json:"keys"`
}

// ShadowKey is one of them.
type ShadowKey struct {
	Rule    string `json:"rule,omitempty"`
	Shedder string `json:"shedder,omitempty"`
	Key     string `json:"key"`            // an API key, or the key of a rule that says secret, as a hint
	Refused int64  `json:"refused"`        // never too low
	Over    int64  `json:"over,omitempty"` // by how much refused may be too high
}

// Top reads how many keys of each rule a question asks for: 0 to 100, 10 for "". The error says what is wrong with it.
func Top(text string) (int, error) {
	if text == "" {
		return usualTop, nil
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > mostTop {
		return 0, fmt.Errorf("top is %.40q: write a whole number from 0 to %d", text, mostTop)
	}

	return n, nil
}

// ShadowOf is the answer for a limiter, with the top keys of each rule and shedder.
func ShadowOf(limiter *leaseway.Limiter, top int) Shadow {
	answer := Shadow{Shedders: inShadow(limiter.Rules()), Keys: []ShadowKey{}}

	for _, k := range limiter.ShadowKeys(top) {
		key := ShadowKey{Rule: k.Rule, Key: k.Key, Refused: k.Refused, Over: k.Over}
		if k.Rule == "" {
			key.Shedder = k.Shedder.String()
		}

		answer.Keys = append(answer.Keys, key)
	}

	return answer
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
