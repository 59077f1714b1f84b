package rule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The bounds of shedders.
const (
	maxCapacity  = 1_000_000_000
	minShedSpan  = 100 * time.Millisecond
	maxShedSpan  = 10 * time.Minute
	minStale     = time.Second
	maxQueueWait = 10 * time.Minute
)

// capacityOfWorkers is how a fleet's capacity says that servers announce it.
const capacityOfWorkers = "workers"

// shedders reads both shedders.
func (v value) shedders() (s Shedders) {
	o, ok := v.object("worker", "fleet")
	if !ok {
		return s
	}
	if worker, ok := o.get("worker"); ok {
		s.Worker = worker.workerShedder()
	}
	if fleet, ok := o.get("fleet"); ok {
		s.Fleet = fleet.fleetShedder()
	}
	return s
}

// workerShedder reads the shedder of a process; nil when it is no map.
func (v value) workerShedder() *WorkerShedder {
	o, ok := v.object(modeKey, "high", "low", "rise", "fall", "hold", "stale", "inFlight", "queueWait")
	if !ok {
		return nil
	}
	s := &WorkerShedder{
		Mode: Mode(o.choice(modeKey, modeWords())), High: o.percent("high", usualHigh, 2), Low: o.percent("low", usualLow, 1),
		Rise: o.span("rise", usualRise), Fall: o.span("fall", usualFall), Stale: usualStale,
	}
	if hold, ok := o.get("hold"); ok {
		s.Hold = hold.duration(minShedSpan, maxShedSpan)
		if _, both := o.get("fall"); both {
			o.last("fall", "hold").fail("fall and hold are two ways to say how what is shed comes back", "write one of them")
		}
	}
	if stale, ok := o.get("stale"); ok {
		s.Stale = stale.duration(minStale, maxShedSpan)
	}
	if n, ok := o.get("inFlight"); ok {
		s.InFlight, _ = n.integer(1, maxCapacity)
	}
	if wait, ok := o.get("queueWait"); ok {
		s.QueueWait = wait.duration(time.Millisecond, maxQueueWait)
	}
	if s.High > 0 && s.Low >= s.High {
		o.last("high", "low").fail(
			fmt.Sprintf("low is %d%% and high %d%%: between them nothing changes, and there is no between", s.Low, s.High),
			"write a low below high")
	}
	if s.Rise > 0 && s.Fall > 0 && s.Fall < s.Rise && s.Hold == 0 {
		o.last("rise", "fall").fail("what is shed would come back faster than it went, and the load with it",
			"write a fall that is no shorter than rise")
	}
	return s
}

// fleetShedder reads the shedder of the fleet; nil when it is no map.
func (v value) fleetShedder() *FleetShedder {
	o, ok := v.object(modeKey, "reserve", "capacity")
	if !ok {
		return nil
	}
	s := &FleetShedder{Mode: Mode(o.choice(modeKey, modeWords())), Reserve: o.percent("reserve", usualReserve, 1)}
	if capacity, ok := o.get("capacity"); ok && capacity.node.Value != capacityOfWorkers {
		if strings.Trim(capacity.node.Value, "-0123456789_.") == "" {
			s.Capacity, _ = capacity.integer(1, maxCapacity)
		} else {
			capacity.fail(kindOf(capacity.node)+" is no capacity",
				"write how many requests the fleet serves at once, or "+capacityOfWorkers)
		}
	}
	return s
}

// percent reads a share from so many percent, over a span of 99; 0 on an error.
func (o *object) percent(name string, usual, least int) int {
	v, ok := o.get(name)
	if !ok {
		return usual
	}
	digits, isShare := strings.CutSuffix(v.node.Value, "%")
	n, err := strconv.Atoi(digits)
	switch {
	case !isShare || err != nil || strings.Trim(digits, "0123456789") != "" || digits[0] == '0' && n != 0:
		if n, err := strconv.Atoi(v.node.Value); err == nil && n >= least && n <= least+98 {
			usual = n // only its sign is missing
		}
		v.fail(kindOf(v.node)+" is no share", fmt.Sprintf("write whole percents, such as %d%%", usual))
	case n < least || n > least+98:
		v.fail(v.node.Value+" is out of range", fmt.Sprintf("write %d%% to %d%%", least, least+98))
	default:
		return n
	}
	return 0
}

// span reads how long a shedder takes for one class.
func (o *object) span(name string, usual time.Duration) time.Duration {
	if v, ok := o.get(name); ok {
		return v.duration(minShedSpan, maxShedSpan)
	}
	return usual
}
