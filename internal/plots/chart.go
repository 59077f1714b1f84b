package plots

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// chart is one picture: panels one below the other, over one time axis.
type chart struct {
	title, subtitle string
	width           int64
	x               axis
	panels          []panel
}

// axis maps values to a side of the picture. Values are whole, so that every
// machine draws the same bytes.
type axis struct {
	name     string
	from, to int64
	ticks    []int64
	edges    []int64 // of windows, marked by thin lines
	label    func(v int64) string
}

type panel struct {
	name   string
	height int64
	y      axis
	lines  []line
	bars   bars
}

type line struct {
	name, style string
	points      []point
	thin        bool // one of many: faint, and not named
}

type point struct{ x, y int64 }

// bars has one for each second of the time axis.
type bars struct {
	style   string
	heights []int64
}

// The margins, in the picture's units.
const (
	left, right = 64, 156
	top, below  = 66, 48
	gap         = 40 // between panels
)

// Blue, orange, green, purple and red, apart for colour-blind eyes too (Okabe
// and Ito), lighter on dark pages. The broad one lies below the one that it runs with.
const style = `<style>
  .page{fill:#fff} text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;font-size:12.5px;fill:#57606a}
  .title{font-size:16px;font-weight:600;fill:#1f2328} .strong{font-weight:600;fill:#1f2328}
  .grid{stroke:#d8dee4} .edge{stroke:#8c959f;stroke-dasharray:1 3} .axis{stroke:#8c959f}
  polyline{fill:none;stroke-width:2.2;stroke-linejoin:round}
  polyline.token{stroke:#0072b2} polyline.fixed{stroke:#d55e00} polyline.log{stroke:#00875f} polyline.leaky{stroke:#b97d00}
  polyline.sliding{stroke:#b0509b;stroke-width:6;stroke-opacity:.45}
  rect.token{fill:#0072b2} rect.leaky{fill:#b97d00}
  @media (prefers-color-scheme:dark){
    .page{fill:#0d1117} text{fill:#9198a1} .title,.strong{fill:#f0f6fc} .grid{stroke:#262c36} .edge,.axis{stroke:#656c76}
    polyline.token{stroke:#56b4e9} polyline.fixed{stroke:#ff8a3d} polyline.log{stroke:#2fc394} polyline.leaky{stroke:#e6b23c}
    polyline.sliding{stroke:#e193cf}
    rect.token{fill:#56b4e9} rect.leaky{fill:#e6b23c}
  }
</style>
`

// svg draws the chart.
func (c chart) svg() []byte {
	height := int64(top + below)
	for i, p := range c.panels {
		height += p.height + gap*int64(min(i, 1))
	}

	var b bytes.Buffer

	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`+"\n",
		c.width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<desc>%s</desc>\n%s", c.title, c.subtitle, style)
	fmt.Fprintf(&b, `<rect class="page" width="%d" height="%d"/>`+"\n", c.width, height)
	text(&b, place{left, 26, "start", "title"}, c.title)
	text(&b, place{left, 47, "start", ""}, c.subtitle)

	y := int64(top)

	for i, p := range c.panels {
		c.draw(&b, p, y)
		y += p.height

		if i < len(c.panels)-1 {
			y += gap
		}
	}

	for _, v := range c.x.ticks {
		text(&b, place{c.across(v), y + 18, "middle", ""}, c.x.label(v))
	}

	text(&b, place{(left + c.width - c.margin()) / 2, y + 38, "middle", ""}, c.x.name)
	b.WriteString("</svg>\n")

	return b.Bytes()
}

// margin is the room at the right, where lines are named.
func (c chart) margin() int64 {
	if len(c.panels[0].lines) > 0 {
		return right
	}

	return left / 2
}

func (c chart) across(v int64) int64 {
	return left + (v-c.x.from)*(c.width-left-c.margin())/(c.x.to-c.x.from)
}

// up places a value of p, whose upper end is at y.
func (p panel) up(y, v int64) int64 { return y + p.height - (v-p.y.from)*p.height/(p.y.to-p.y.from) }

// draw draws one panel with its upper end at y.
func (c chart) draw(b *bytes.Buffer, p panel, y int64) {
	end := c.width - c.margin()

	for _, v := range p.y.ticks {
		class := "grid"
		if v == p.y.from {
			class = "axis"
		}

		stroke(b, class, [4]int64{left, p.up(y, v), end, p.up(y, v)})
		text(b, place{left - 8, p.up(y, v) + 4, "end", ""}, p.y.label(v))
	}

	for _, v := range c.x.edges {
		stroke(b, "edge", [4]int64{c.across(v), y, c.across(v), y + p.height})
	}

	middle := y + p.height/2
	fmt.Fprintf(b, `<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", middle, p.y.name)

	if p.name != "" {
		text(b, place{end - 8, y + 20, "end", "strong"}, p.name)
	}

	c.drawBars(b, p, y)
	c.drawLines(b, p, y)
}

func (c chart) drawBars(b *bytes.Buffer, p panel, y int64) {
	for i, n := range p.bars.heights {
		if n == 0 {
			continue
		}

		x0, x1 := c.across(int64(i)*second), c.across(int64(i+1)*second)
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%d" height="%d"/>`+"\n",
			p.bars.style, x0+1, p.up(y, n), x1-x0-2, y+p.height-p.up(y, n))
	}
}

// drawLines draws the lines, and their names at their ends, pushed apart where they would touch.
func (c chart) drawLines(b *bytes.Buffer, p panel, y int64) {
	const between = 17

	type name struct {
		y          int64
		text, from string
	}

	var names []name

	for _, l := range slices.Backward(p.lines) {
		var (
			coordinates strings.Builder
			last        int64
		)

		for _, pt := range l.points {
			if pt.x < c.x.to {
				fmt.Fprintf(&coordinates, "%d,%d ", c.across(pt.x), p.up(y, pt.y))

				last = pt.y
			}
		}

		fmt.Fprintf(&coordinates, "%d,%d", c.across(c.x.to), p.up(y, last))

		if l.thin {
			fmt.Fprintf(b, `<polyline class="%s" style="stroke-width:1;stroke-opacity:.4" points="%s"/>`+"\n", l.style, &coordinates)

			continue
		}

		fmt.Fprintf(b, `<polyline class="%s" points="%s"/>`+"\n", l.style, &coordinates)
		names = append(names, name{p.up(y, last), fmt.Sprintf("%s %d", l.name, last), l.style})
	}

	slices.SortFunc(names, func(a, b name) int { return int(a.y - b.y) })

	for i := range names {
		if i > 0 {
			names[i].y = max(names[i].y, names[i-1].y+between)
		}

		x := c.width - right
		fmt.Fprintf(b, `<polyline class="%s" points="%d,%d %d,%d"/>`+"\n", names[i].from, x+5, names[i].y, x+19, names[i].y)
		text(b, place{x + 24, names[i].y + 4, "start", ""}, names[i].text)
	}
}

// place is where and how a text stands.
type place struct {
	x, y          int64
	anchor, class string
}

func text(b *bytes.Buffer, p place, s string) {
	class := ""
	if p.class != "" {
		class = " class=" + strconv.Quote(p.class)
	}

	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s"%s>%s</text>`+"\n", p.x, p.y, p.anchor, class, s)
}

func stroke(b *bytes.Buffer, class string, from [4]int64) {
	fmt.Fprintf(b, `<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", class, from[0], from[1], from[2], from[3])
}

// The labels of ticks.

func number(v int64) string  { return strconv.FormatInt(v, 10) }
func seconds(v int64) string { return strconv.FormatInt(v/second, 10) }
func clock(v int64) string   { return fmt.Sprintf("%d:%02d", v/minute, v%minute/second) }
