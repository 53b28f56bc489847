// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"strings"

	"podfit.dev/podfit/internal/look/page"
)

// markdown writes the report for a pull request or a wiki.
func (p *printer) markdown() {
	d := p.shown(false)
	p.Text.WriteString("## Recommended requests\n\n")
	for _, line := range append(d.Head, d.Notes...) {
		p.Text.WriteString(escaped(line) + "\n\n")
	}
	for _, s := range d.Sections {
		if p.options.Groups == nil {
			p.Text.WriteString("### " + escaped(s.Title) + "\n\n")
		}
		p.markdownTable(s.Table)
		if p.options.Groups == nil {
			p.Text.WriteString("\n")
		}
	}
	for _, line := range d.Rest {
		p.Text.WriteString(escaped(line) + "\n\n")
	}
}

func (p *printer) markdownTable(t *page.Table) {
	var head, rule strings.Builder
	for _, c := range t.Columns {
		head.WriteString("| " + escaped(c.Title) + " ")
		if c.Right {
			rule.WriteString("|---:")
		} else {
			rule.WriteString("|---")
		}
	}
	p.Text.WriteString(head.String() + "|\n" + rule.String() + "|\n")
	for _, row := range t.Rows {
		for _, cell := range row.Cells {
			p.Text.WriteString("| " + escaped(cell) + " ")
		}
		p.Text.WriteString("|\n")
	}
}

// escaped returns text that Markdown and HTML show as it is.
func escaped(s string) string { return markdownEscaper.Replace(plain(s)) }

var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "#", `\#`, "~", `\~`, "&", "&amp;", "<", "&lt;", ">", "&gt;", "://", "&#58;//", "@", "&#64;",
)
