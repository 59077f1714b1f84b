package leaseway

import "time"

// Load is how busy a process is by one signal.
type Load struct {
	Signal string  // workers, inFlight, queueWait, cpu, or the name of a WithSignal
	Value  float64 // a share of 1; NaN when it is not known
}

// Measures reports whether Begin and End are of use: the process has said how
// many workers it has, or the rules in force shed by requests in flight or by
// their wait. Package leasewayhttp calls all three.
func (l *Limiter) Measures() bool { return l.shedder.measures.Load() }

// Begin notes that a worker of this process begins with a request, which waited
// for it for so long; 0 if that is not known. End must follow.
func (l *Limiter) Begin(waited time.Duration) {
	defer l.survived("measuring a request")

	l.shedder.meter.Begin(l.table.Now(), waited.Microseconds())
}

// Waited notes that a request which has begun waited for so long inside of this
// process, such as for a worker of a pool behind the middleware. It is for the
// queueWait of the worker shedder, and asks for no End.
func (l *Limiter) Waited(d time.Duration) {
	defer l.survived("measuring a request")

	l.shedder.meter.Waited(d.Microseconds())
}

// End notes that the worker is done with a request that Begin was called for.
func (l *Limiter) End() {
	defer l.survived("measuring a request")

	l.shedder.meter.End(l.table.Now())
}

// TimeIn returns the time of day d from now, as for Decision.Reset: by the clock
// that decisions from memory go by, which is two milliseconds late at most while
// the process gets to run, in whole microseconds, and costs a tenth of time.Now.
func (l *Limiter) TimeIn(d time.Duration) time.Time {
	return time.UnixMicro(l.table.TickWall() + d.Microseconds()) // Time.Add would take longer than all the rest
}
