package plots

import "fmt"

// Fleet is what a fleet of servers was asked for and what it admitted, by time.
type Fleet struct {
	Title, Subtitle string

	Bin int64 // how long each number below counts, µs

	Wanted, Ideal, Admitted []int64   // tokens: asked for, what one central limiter would admit, and what the fleet did
	Limit                   []int64   // tokens a second
	Servers                 [][]int64 // tokens that each server admitted
}

// SVG draws the fleet: what all servers did together, and below it each by itself.
func (f Fleet) SVG() []byte {
	n := max(1, int64(len(f.Wanted)))
	c := chart{
		title: f.Title, subtitle: f.Subtitle, width: 860,
		x: axis{name: "time, seconds", to: n * f.Bin, label: tenths, ticks: every(0, n*f.Bin, nice(n*f.Bin))},
	}

	together := panel{name: "all servers", height: 300, lines: []line{
		{name: "asked for", style: "fixed", points: f.points(f.Wanted)},
		{name: "ideal", style: "log", points: f.points(f.Ideal)},
		{name: "limit", style: "leaky", points: points(f.Limit, f.Bin, 1)},
		{name: "admitted", style: "token", points: f.points(f.Admitted)},
	}}

	apart := panel{name: "each server", height: 220}
	for _, s := range f.Servers {
		apart.lines = append(apart.lines, line{style: "token", thin: true, points: f.points(s)})
	}

	for _, p := range []panel{together, apart} {
		top := int64(1)

		for _, l := range p.lines {
			for _, pt := range l.points {
				top = max(top, pt.y)
			}
		}

		p.y = axis{name: "tokens a second", to: top + top/10 + 1, label: number, ticks: every(0, top, nice(top))}
		c.panels = append(c.panels, p)
	}

	return c.svg()
}

// points turns tokens a bin into tokens a second.
func (f Fleet) points(counts []int64) []point { return points(counts, f.Bin, second) }

// points returns the steps of counts, each of bin µs, as counts for per µs, or as they are if per is 1.
func points(counts []int64, bin, per int64) (pts []point) {
	for i, n := range counts {
		if per > 1 {
			n = n * per / bin
		}

		pts = append(pts, point{x: int64(i)*bin + bin/2, y: n})
	}

	return pts
}

// nice returns 1, 2 or 5 times a power of ten that divides most into five steps or fewer.
func nice(most int64) int64 {
	for step := int64(1); ; step *= 10 {
		for _, s := range []int64{step, 2 * step, 5 * step} {
			if most/s <= 5 {
				return s
			}
		}
	}
}

func tenths(v int64) string { return fmt.Sprintf("%g", float64(v/100_000)/10) }
