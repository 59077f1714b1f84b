package main

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	crowdSize = 256
	crowdTime = 500 * time.Millisecond
)

// crowdRates are the limits of the columns, a second. The burst is what comes in crowdBurst.
func crowdRates() []int { return []int{100_000, 1_000_000} }

const crowdBurst = 100 * time.Millisecond

// crowd measures whether a limit holds when everybody wants it at once.
func crowd() contest {
	c := contest{
		name: "crowd", title: "The limit under contention", rounds: 3,
		about: "256 goroutines ask for one key as fast as they can. What was admitted, in parts of what the limit allows in " +
			"the time that it took: burst + rate × time, where the burst is 100 ms of the rate. More than 1 is too much.",
	}

	for _, rate := range crowdRates() {
		c.columns = append(c.columns, "admitted, at "+grouped(rate)+"/s")
	}

	for _, d := range deciders() {
		if d.side == floor || d.name == leasewayDecideName {
			continue
		}

		c.entrants = append(c.entrants, entrant{name: d.name, side: d.side, measure: func(column int) (sample, error) {
			return rush(d, crowdRates()[column])
		}})
	}

	return c
}

// rush lets the crowd in, and adds up what was admitted.
func rush(d decider, rate int) (sample, error) {
	burst := int(float64(rate) * crowdBurst.Seconds())

	l, err := d.make(quota{limit: burst, window: crowdBurst})
	if err != nil {
		return sample{}, err
	}

	if l.close != nil {
		defer l.close()
	}

	var (
		admitted atomic.Int64
		over     atomic.Bool
		all      sync.WaitGroup
	)

	began := time.Now()

	for range crowdSize {
		all.Go(func() {
			mine := int64(0)

			for !over.Load() {
				if l.take(hotKey) {
					mine++
				}
			}

			admitted.Add(mine)
		})
	}

	<-time.After(crowdTime)
	over.Store(true)
	all.Wait()

	// From before the first was let in until after the last: no limiter is told to have less time than it had.
	allowed := float64(burst) + float64(rate)*time.Since(began).Seconds()

	return sample{value: float64(admitted.Load()) / allowed}, nil
}

// grouped writes a number of thousands as people read it.
func grouped(n int) string {
	if n < 1_000 {
		return strconv.Itoa(n)
	}

	return fmt.Sprintf("%s,%03d", grouped(n/1_000), n%1_000)
}
