package admin

import "time"

// Plan is a rollout that goes on by itself, as the setting PlanSetting of the rule keeps it. The API makes, shows and ends
// plans; the server carries them out, and notes in State and Note how far it came.
type Plan struct {
	// Steps are the percentages of keys, each greater than the one before, from above 0 to 100.
	Steps []float64 `json:"steps"`
	// Every is how long each step lasts, in seconds.
	Every int64 `json:"everySec"`
	// MaxRefused is the share of refused requests, in percent, of those whose keys the rollout has reached, above which it stops and
	// goes back to 0.
	MaxRefused float64 `json:"maxRefused"`
	// Step is the index of the present step, which began at Since.
	Step  int       `json:"step"`
	Since time.Time `json:"since"`
	// State is running, done, or stopped; Note says why it stopped.
	State PlanState `json:"state"`
	Note  string    `json:"note,omitempty"`
	// Author is who began it, in whose name it goes on.
	Author string `json:"author"`
}

// PlanState says how far a plan is.
type PlanState string

const (
	// PlanRunning has steps to come.
	PlanRunning PlanState = "running"
	// PlanDone has reached its last step.
	PlanDone PlanState = "done"
	// PlanStopped went back, or was ended by somebody.
	PlanStopped PlanState = "stopped"
)

// PlanPrefix begins the names of the settings that keep plans.
const PlanPrefix = "rollout/"

// PlanSetting is the setting that keeps the plan of a rule.
func PlanSetting(ruleID string) string { return PlanPrefix + ruleID }
