// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
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

// The longest comments that GitHub and GitLab accept, in bytes. They count characters, of which a text has fewer.
const (
	mostGitHub = 65_536
	mostGitLab = 1_000_000
)

// comment writes the report as a comment of a pull request or merge request: the tables, and a kustomize component that is closed at first. A
// report without anything to change has no component. What does not fit is left out, and the comment says so.
func (p *printer) comment(most int) {
	p.markdown()
	tables := p.taken()
	manifests, _ := p.manifests()
	patch := ""
	if len(manifests) > 0 {
		p.kustomize()
		patch = p.taken()
		fence := strings.Repeat("`", 3)
		for strings.Contains(patch, fence) {
			fence += "`"
		}
		patch = "<details><summary>Patch</summary>\n\n" + fence + "yaml\n" + patch + fence + "\n\n</details>\n"
	}
	const tooLong = "The patch is too long for a comment. `podfit recommend -o kustomize` prints it.\n"
	if len(tables)+len(patch) > most {
		patch = tooLong
	}
	if len(tables)+len(patch) > most {
		note := fmt.Sprintf("\n\nThe rest is left out, because a comment may have %d characters. --top limits the rows.\n\n", most)
		tables = tables[:strings.LastIndexByte(tables[:most-len(patch)-len(note)], '\n')] + note
	}
	p.Text.WriteString(tables + patch)
}

// taken returns the text so far, and begins a new one.
func (p *printer) taken() string {
	text := p.Text.String()
	p.Text.Reset()
	return text
}
