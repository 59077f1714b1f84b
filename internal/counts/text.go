package counts

import (
	"slices"
	"strconv"
	"strings"
)

// AppendText appends samples to b in the text format of Prometheus, version 0.0.4, the series of a name together.
func AppendText(b []byte, samples []Sample) []byte {
	slices.SortStableFunc(samples, func(x, y Sample) int { return strings.Compare(x.Name, y.Name) })

	last := ""

	for i := range samples {
		s := &samples[i]
		if s.Name != last {
			b = s.appendHead(b)
			last = s.Name
		}

		b = s.appendSeries(b)
	}

	return b
}

func (s *Sample) appendHead(b []byte) []byte {
	kind := " counter\n"
	if s.Gauge {
		kind = " gauge\n"
	}

	b = append(append(append(b, "# HELP "+Prefix...), s.Name...), ' ')
	b = append(append(b, escape(s.Help, false)...), '\n')

	return append(append(append(b, "# TYPE "+Prefix...), s.Name...), kind...)
}

func (s *Sample) appendSeries(b []byte) []byte {
	b = append(append(b, Prefix...), s.Name...)

	for i, l := range s.Labels {
		between := byte(',')
		if i == 0 {
			between = '{'
		}

		b = append(append(append(b, between), l.Name...), '=', '"')
		b = append(append(b, escape(l.Value, true)...), '"')
	}

	if len(s.Labels) > 0 {
		b = append(b, '}')
	}

	b = strconv.AppendFloat(append(b, ' '), s.Value, 'g', -1, 64)

	return append(b, '\n')
}

// escape writes a help, or the value of a label, as the format wants it.
func escape(text string, quoted bool) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), "\n", `\n`)
	if quoted {
		text = strings.ReplaceAll(text, `"`, `\"`)
	}

	return text
}
