// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"strings"
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
