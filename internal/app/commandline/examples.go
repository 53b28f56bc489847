// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"regexp"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/edge/report/terminal"
)

// comment matches the comment at the end of an example, and the blanks before it.
var comment = regexp.MustCompile(` +# (.*)$`)

// shellWord matches a word of a command, with quoted blanks.
var shellWord = regexp.MustCompile(`(?:[^\s'"]+|'[^']*'|"[^"]*")+`)

// wrapExamples wraps examples at a width. Each remains a command that can be copied: a long command continues after a backslash. If a line
// with a comment is too long, all comments are on lines of their own.
func wrapExamples(examples string, width int) string {
	lines := strings.Split(strings.TrimRight(examples, "\n"), "\n")
	beside := !slices.ContainsFunc(lines, func(line string) bool { return terminal.Width(line) > width && comment.MatchString(line) })
	var out []string
	for _, line := range lines {
		text := strings.TrimSpace(line)
		indent := line[:indentOf(line)]
		if at := comment.FindStringSubmatchIndex(line); at != nil && !beside && !strings.HasPrefix(text, "#") {
			out = append(out, wrapComment(indent, line[at[2]:at[3]], width)...)
			line = line[:at[0]]
		}
		switch {
		case terminal.Width(line) <= width:
			out = append(out, line)
		case strings.HasPrefix(text, "#"):
			out = append(out, wrapComment(indent, strings.TrimLeft(text, "# "), width)...)
		default:
			out = append(out, wrapCommand(indent, line, width)...)
		}
	}
	return strings.Join(out, "\n")
}

// wrapComment returns the lines of a comment.
func wrapComment(indent, text string, width int) []string {
	begin := indent + "# "
	lines := strings.Split(hanging("", text, 0, width-len(begin)), "\n")
	for i := range lines {
		lines[i] = begin + lines[i]
	}
	return lines
}

// wrapCommand returns the lines of a command. All but the last end with a backslash.
func wrapCommand(indent, command string, width int) (out []string) {
	line := indent
	for _, word := range shellWord.FindAllString(command, -1) {
		if strings.TrimSpace(line) != "" && terminal.Width(line)+terminal.Width(word)+len(` \`) > width {
			out = append(out, line+`\`)
			line = indent + "    "
		}
		line += word + " "
	}
	return append(out, strings.TrimRight(line, " "))
}
