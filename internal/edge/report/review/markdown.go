// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import "strings"

// markdown writes the report for a pull request or a wiki.
func (p *printer) markdown() {
	lines := append(p.header(), p.notes()...)
	p.Text.WriteString("## Recommended requests\n\n")
	for _, line := range lines {
		p.Text.WriteString(escaped(strings.TrimSpace(line)) + "\n\n")
	}
	if p.options.Groups != nil {
		columns, rows := p.groupTable()
		p.markdownTable(columns, rows)
		return
	}
	for _, list := range p.lists(false) {
		p.Text.WriteString("### " + escaped(list.title) + "\n\n")
		p.markdownTable(list.columns, list.rows)
		p.Text.WriteString("\n")
	}
	for _, line := range p.leftOut() {
		p.Text.WriteString(escaped(line) + "\n\n")
	}
}

func (p *printer) markdownTable(columns []column, rows [][]string) {
	var head, rule strings.Builder
	for _, c := range columns {
		head.WriteString("| " + escaped(c.title) + " ")
		if c.right {
			rule.WriteString("|---:")
		} else {
			rule.WriteString("|---")
		}
	}
	p.Text.WriteString(head.String() + "|\n" + rule.String() + "|\n")
	for _, row := range rows {
		for _, cell := range row {
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
