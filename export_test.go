package leaseway

// Stage is a place at which a test can make a bug.
type Stage = stage

// The stages.
const (
	StageSwitch = stageSwitch
	StageMatch  = stageMatch
	StageQuick  = stageQuick
	StageWorker = stageWorker
	StageFleet  = stageFleet
	StageKeys   = stageKeys
	StageSlots  = stageSlots
	StageRate   = stageRate
	StageRated  = stageRated
	StageShadow = stageShadow
	StageDone   = stageDone
	StageRefund = stageRefund
)

// Trip calls f at each stage of each request; nil ends that. No request may be under way.
func (l *Limiter) Trip(f func(Stage)) { l.trip = f }

// Bug is a rule of which nothing is there: whatever it is asked panics.
func (l *Limiter) Bug() *Rule { return &Rule{limiter: l} }
