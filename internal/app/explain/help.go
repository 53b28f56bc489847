// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/explain/messages"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/report/terminal"
	"podfit.dev/podfit/internal/spelling"
)

// complete returns the kinds, or after a kind the names of its objects.
func (c *Config) complete(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	of, _, named := strings.Cut(typed, "/")
	var out []string
	if typed != "" && strings.ToUpper(typed[:1]) == typed[:1] && !named { // names of kinds are in lower case
		out = slices.DeleteFunc(messages.Names(), func(name string) bool { return !strings.HasPrefix(name, typed) })
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	for i := range kinds {
		switch first := kinds[i].names[0]; {
		case !kinds[i].offered:
		case !named && strings.HasPrefix(first, typed):
			out = append(out, first+"/")
		case named && first == of:
			return process.ObjectNames(cmd.Context(), c.Kube, c.namespace(), typed), cobra.ShellCompDirectiveNoFileComp
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

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
		return process.UsageError{Err: fmt.Errorf("give one object as KIND/NAME, for example deploy/cart, or the name or text of a message, as in docs/messages.md; got %q%s", what, spelling.Hint(what, messages.Names()))}
	case format == "json":
		return writeJSON(out, found)
	case format != "text":
		return process.UsageError{Err: fmt.Errorf("--output=%s needs an object as KIND/NAME; a message has text and json", format)}
	}
	p := terminal.Printer{Width: process.Columns(out, columns)}
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
