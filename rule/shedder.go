package rule

import "time"

// Shedders say what is refused for the sake of the system, whoever asks. A nil one sheds nothing.
type Shedders struct {
	Worker *WorkerShedder
	Fleet  *FleetShedder
}

// WorkerShedder sheds requests of one process while that is busy: test first, then reads, then writes.
type WorkerShedder struct {
	// Mode says whether it refuses, only counts, or is off.
	Mode Mode
	// High and Low are in percent of what the process can do: above High it sheds more, below Low less.
	High, Low int
	// Rise is how long the load must be high until one class more is shed as a whole, Fall how long low until one is back.
	Rise, Fall time.Duration
	// Hold, if it is not 0, takes the place of Fall: how long the load must be low until nothing is shed any more, and for how
	// long none begins after that.
	Hold time.Duration
	// Stale is for how long a load is believed when nothing is heard any more; then nothing is shed.
	Stale time.Duration
	// InFlight is how many requests at once count as 100 % of a process; 0 does not count them.
	InFlight int64
	// QueueWait is the mean time of waiting before a request begins that counts as 100 %; 0 does not look at it.
	QueueWait time.Duration
}

// FleetShedder keeps a share of what the whole fleet can do free for critical requests.
type FleetShedder struct {
	// Mode says whether it refuses, only counts, or is off.
	Mode Mode
	// Reserve is the share that is free for critical requests, in percent.
	Reserve int
	// Capacity is how many requests the fleet serves at once; 0 is the sum of the workers that live servers announce.
	Capacity int64
}

// What shedders have unless they say so.
const (
	usualHigh    = 90
	usualLow     = 75
	usualRise    = 2 * time.Second
	usualFall    = 10 * time.Second
	usualStale   = 5 * time.Second
	usualReserve = 20
)
