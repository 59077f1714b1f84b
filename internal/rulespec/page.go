package rulespec

import (
	"fmt"
	"strings"
)

// intro is what the page says before the tables.
const intro = `<!-- Written by "make generate" from internal/rulespec: edit that. -->

# The rule document

A rule document is YAML or JSON. Each rule is one limit: which requests it is about, whose budget they spend, and how
much of it there is. All rules that match a request apply, and a request that one of them refuses is charged to none.

` + "```yaml" + `
` + Modeline + `
rules:
  - id: search-per-key
    scope: /v1/search
    keyBy: apikey
    limit: 100
    window: 1m
    burst: 150
    overrides: [{key: acme, limit: 5000, burst: 8000}]
` + "```" + `

The first line lets editors with the YAML language server complete and check the document while you write; the schema is
also what ` + "`leaseway rules schema`" + ` prints. ` + "`leaseway rules init`" + ` writes a commented start, and ` + "`leaseway validate FILE`" + ` says
everything that is wrong or doubtful, with the line, the column and the fix: exit status 0, or 2 when a file cannot be used.

A document is taken as a whole or not at all. A key that is not in these tables is an error: a slip would be a limit that
its owner believes in and nobody enforces.

Spans of time are a number and a unit (` + "`us`, `ms`, `s`, `m`, `h`, `d`, `w`" + `), or several together: ` + "`500ms`, `1h30m`, `7d`" + `. Whole
numbers are decimal; ` + "`1_000`" + ` is fine, ` + "`010` and `0x10`" + ` are refused, because two readers of YAML take them for two numbers.
`

// algorithms is what the page says about them, after the table of a rule.
const algorithms = `
### Algorithms

| algorithm | how the budget refills | in any window it admits at most | burst |
|---|---|---|---|
| ` + "`token_bucket`" + ` | continuously, one token each window/limit | burst + limit | the capacity |
| ` + "`fixed_window`" + ` | at the edges of windows, aligned to the Unix epoch or to a calendar | 2 × limit, around an edge | – |
| ` + "`sliding_window`" + ` | continuously, as the previous window loses weight | limit under an even load; below 2 × limit after a window that was used up at its end | – |
| ` + "`sliding_log`" + ` | as each admission leaves the window | limit, exactly | – |
| ` + "`leaky_bucket`" + ` | continuously; requests wait, so that they leave at an even pace | limit + 1 | how many may wait |
| ` + "`concurrency`" + ` | as each request ends | any number; at most limit at the same time | – |

A ` + "`sliding_log`" + ` stores the time of every admission, some 16 bytes each, and every request reads and writes them: it is for
small limits, such as logins and one-time passwords.

### Days and months

Only a ` + "`fixed_window`" + ` has windows of a calendar. ` + "`window: 1d`" + ` with a ` + "`timeZone`" + ` is the day of that zone, and ` + "`window: 1mo`" + ` the
month. A day has 23 or 25 hours where clocks are changed; where clocks leave midnight out it begins right after, and where
they show midnight twice, at the first. Without a ` + "`timeZone`" + `, ` + "`1d`" + ` is 86400 seconds. Where one number is needed for
such a window, as in a fallback share, a day counts as 24 hours and a month as 30 days. All keys of a rule share its calendar.
`

// Page is docs/rules.md.
func Page() []byte {
	var b strings.Builder
	b.WriteString(intro)
	table(&b, "## The document", Document())
	top := Document()
	table(&b, "## A rule", top[0].Value.Fields)
	b.WriteString(algorithms)
	b.WriteString(classesText)
	b.WriteString(sheddersText)
	b.WriteString(switchesText)
	b.WriteString(rolloutText)
	for _, f := range append(top[0].Value.Fields, top[1:]...) {
		if len(f.Value.Fields) > 0 {
			table(&b, "## `"+f.Name+"`", f.Value.Fields)
		}
		for _, inner := range f.Value.Fields {
			if len(inner.Value.Fields) > 0 && inner.Name != "lease" { // lease is the same everywhere
				table(&b, "### `"+f.Name+"."+inner.Name+"`", inner.Value.Fields)
			}
		}
	}
	return []byte(b.String())
}

// table writes the fields of one map.
func table(b *strings.Builder, title string, fields []Field) {
	fmt.Fprintf(b, "\n%s\n\n| field | value | default | meaning |\n|---|---|---|---|\n", title)
	for _, f := range fields {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Name, f.Value.describe(), f.defaultText(), f.docText())
	}
}

// describe is the value as a cell.
func (v Value) describe() string {
	text := v.Type
	if len(v.Allowed) > 0 {
		text = strings.Replace(text, "word", "`"+strings.Join(v.Allowed, "`, `")+"`", 1)
	}
	if v.Low != "" {
		text += fmt.Sprintf(", %s to %s", v.Low, v.High)
	}
	return text
}

// defaultText is the default as a cell.
func (f Field) defaultText() string {
	switch {
	case f.Required:
		return "required"
	case f.Default == "":
		return "–"
	}
	return "`" + strings.ReplaceAll(f.Default, `"`, "") + "`"
}

// docText is the sentence as a cell.
func (f Field) docText() string {
	return strings.ReplaceAll(f.Doc, "|", `\|`)
}
