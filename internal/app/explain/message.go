// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/app/explain/messages"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/report/terminal"
	"podfit.dev/podfit/internal/spelling"
)

// asksForMessage reports whether the argument is the name or the text of a message, and not an object.
func asksForMessage(args []string) bool {
	if len(args) != 1 || args[0] == "" {
		return false
	}
	name := strings.ToLower(args[0])
	isText := strings.Contains(strings.TrimSpace(name), " ")
	return isText || !strings.Contains(name, "/") && !slices.ContainsFunc(kinds, func(k kind) bool { return slices.Contains(k.names, name) })
}

// writeMessages writes what a name or a text means, in the format text or json.
func writeMessages(out io.Writer, what, format string) error {
	found := messages.Find(what)
	switch {
	case len(found) == 0:
		nearest := spelling.Nearest(what, messages.Names())
		if nearest != "" {
			nearest = fmt.Sprintf(" Did you mean %s?", nearest)
		}
		return process.UsageError{Err: fmt.Errorf("give one object as KIND/NAME, for example deploy/cart, or the name or text of a message, as in docs/messages.md; got %q.%s", what, nearest)}
	case format == "json":
		return writeJSON(out, found)
	case format != "text":
		return process.UsageError{Err: fmt.Errorf("--output=%s needs an object as KIND/NAME; a message has text and json", format)}
	}
	p := terminal.Printer{Width: widthOf(out, columns)}
	for i, m := range found {
		if i > 0 {
			p.Line("")
		}
		p.Line(m.Kind + " " + m.Name)
		for _, part := range [][2]string{{"On the object: ", m.Object}, {"Example of the text: ", m.Text}, {"Meaning: ", m.Meaning}, {"Remedy: ", m.Remedy}, {"All such messages: ", m.About}} {
			if part[1] != "" {
				p.Line("  " + part[0] + part[1])
			}
		}
	}
	_, err := io.WriteString(out, p.Text.String())
	return err
}

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
