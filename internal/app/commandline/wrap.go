// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

// Widest is the maximum line length of help texts, in characters. Longer lines are hard to read.
const Widest = 120

// usualWidth is the line length of help texts if the output is not a terminal, as for manual pages.
const usualWidth = 80

// widthOf returns the line length for help on an output: that of the terminal, or of the environment variable COLUMNS.
func widthOf(out io.Writer) int {
	if columns, _, ok := process.TerminalSize(out); ok {
		return min(columns, Widest)
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return min(columns, Widest)
	}
	return usualWidth
}

// gap separates the name and the description of an entry in a list.
var gap = regexp.MustCompile(` {2,}`)

// Reflow wraps a description. Lines that begin with blanks are entries of a list: a name and its description, which begins after two blanks
// and continues on lines that are indented more. A description can also be on lines of its own. Other lines up to a blank line are one
// paragraph.
func Reflow(text string, width int) string {
	var blocks []string
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		last := len(blocks) - 1
		switch {
		case last < 0 || strings.TrimSpace(line) == "" || blocks[last] == "":
			blocks = append(blocks, strings.TrimRight(line, " "))
		case indentOf(line) == 0 && indentOf(blocks[last]) == 0, continues(blocks[last], line):
			blocks[last] += " " + strings.TrimSpace(line)
		default:
			blocks = append(blocks, line)
		}
	}
	for i, block := range blocks {
		indent := indentOf(block)
		block = block[indent:]
		blocks[i] = hanging(strings.Repeat(" ", indent), block, indent, width)
		if at := gap.FindStringIndex(block); indent > 0 && at != nil {
			blocks[i] = entry(strings.Repeat(" ", indent)+block[:at[0]], block[at[1]:], indent+terminal.Width(block[:at[1]]), width)
		}
	}
	return strings.Join(blocks, "\n")
}

func continues(entry, line string) bool {
	indent := indentOf(entry)
	return indent > 0 && indentOf(line) > indent && gap.MatchString(entry[indent:])
}

// indentOf returns the number of blanks at the beginning of a line.
func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// entry returns an entry of a list: a name, and a description that begins at a column, on the next line if the name is too long.
func entry(name, about string, column, width int) string {
	if column > width/2 {
		column = 8
	}
	if terminal.Width(name)+2 > column {
		return name + "\n" + hanging(strings.Repeat(" ", column), about, column, width)
	}
	return hanging(terminal.Pad(name, column), about, column, width)
}

// hanging wraps text between words, and cuts no word: a command or an address can be copied. The first line begins with a prefix, the
// others with an indent.
func hanging(prefix, text string, indent, width int) string {
	return strings.Join(terminal.Layout{Hanging: indent, Separator: " ", Width: width}.Lines(prefix, strings.Fields(text)), "\n")
}
