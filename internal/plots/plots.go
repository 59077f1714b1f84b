// Package plots draws what docs/choosing.md shows: the five algorithms under
// one limit, as SVG pictures and as a table of what each admits at worst.
//
// The curves are computed by internal/rate, the arithmetic that decides
// requests, so a picture cannot promise what the code does not do. The test
// writes the files with -update, as "make generate" does, and fails when they are
// out of date. The simulator draws its fleets with the same chart.
//
//	counter (internal/rate) ──▶ greedy, bursts: who asks when ──▶ chart ──▶ docs/plots/*.svg
//	                       └──▶ worst: the most in any stretch ──▶ the table in docs/choosing.md
package plots

import (
	"fmt"
	"strings"
)

// The limit of all pictures, 60 a minute, so that one token takes a second; and times, µs.
const (
	limit  = 60
	moment = int64(1_000) // a millisecond: what people call at once
	second = 1_000 * moment
	minute = 60 * second
)

// Pictures returns the SVG files by name.
func Pictures() map[string][]byte {
	return map[string][]byte{
		"greedy.svg": greedyPicture().svg(),
		"shape.svg":  shapePicture().svg(),
	}
}

// greedyPicture shows a caller who asks all the time, from one second before a window ends.
func greedyPicture() chart {
	const from, until = 59 * second, 210 * second

	c := chart{
		title:    "A caller who asks all the time, from 0:59 on",
		subtitle: "60 requests a minute; buckets with a burst of 60. Thin lines are the edges of windows.",
		width:    760,
		x: axis{
			name: "time, minutes and seconds", from: 30 * second, to: until,
			ticks: every(30*second, until, 30*second), label: clock, edges: every(minute, 3*minute, minute),
		},
		panels: []panel{{y: axis{name: "requests served so far", to: 250, ticks: every(0, 240, 60), label: number}, height: 330}},
	}

	for _, a := range algorithms() {
		c.panels[0].lines = append(c.panels[0].lines, line{name: a.name, style: a.style, points: climb(greedy(a.open(limit), from, until))})
	}

	return c
}

// shapePicture shows 20 requests at once, every 20 seconds, under the two buckets.
func shapePicture() chart {
	const burst, until = 20, 60 * second

	c := chart{
		title:    "Twenty requests at once, every twenty seconds",
		subtitle: "60 requests a minute, burst 20. Nothing is refused: one lets the burst through, the other spreads it.",
		width:    760,
		x:        axis{name: "time, seconds", to: until, ticks: every(0, until, 10*second), label: seconds},
	}

	for _, a := range algorithms() {
		if a.name != tokenBucket && a.name != leakyBucket {
			continue
		}

		var (
			served []event
			bucket = a.open(burst)
		)

		for at := int64(0); at < until; at += 20 * second {
			for range burst {
				served = append(served, take(bucket, at))
			}
		}

		c.panels = append(c.panels, panel{
			name: a.name, height: 120,
			y:    axis{name: "served in a second", to: 20, ticks: every(0, 20, 10), label: number},
			bars: bars{style: a.style, heights: perSecond(served, until)},
		})
	}

	return c
}

// Table returns what each algorithm admits at most under 60 a minute, as Markdown.
func Table() []byte {
	var b strings.Builder

	b.WriteString("| algorithm | in one moment | in any minute | in any ten minutes | in any hour |\n|---|---:|---:|---:|---:|\n")

	for _, a := range algorithms() {
		name := "`" + strings.ReplaceAll(a.name, " ", "_") + "`"
		if a.name == leakyBucket {
			name += ", as served"
		}

		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", name,
			worst(a, moment), worst(a, minute), worst(a, 10*minute), worst(a, 60*minute))
	}

	return []byte(b.String())
}

// every returns the values from a to b, step by step.
func every(a, b, step int64) (all []int64) {
	for v := a; v <= b; v += step {
		all = append(all, v)
	}

	return all
}
