// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

// commandGroups are the groups of commands in the help, by what people need.
var commandGroups = []struct {
	title string
	names []string
}{
	{"See what podfit would do; these commands change nothing", []string{"recommend", "explain", "capacity", "backtest", "web"}},
	{"Run podfit", []string{"run", "recommender", "updater", "admission-controller"}},
	{"Install podfit, and more", []string{"crds", "version", "completion", "help"}},
}

// SetHelp makes a command and its subcommands print help that fits the terminal.
func SetHelp(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		about := cmp.Or(c.Long, c.Short+".")
		if isShort(c) {
			about, _, _ = strings.Cut(about, "\n\n")
		}
		out := c.OutOrStdout()
		_, err := io.WriteString(out, Reflow(about, widthOf(out))+"\n\n"+usageText(c, widthOf(out)))
		if err != nil {
			c.PrintErrln(err)
		}
	})
	root.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStderr()
		_, err := io.WriteString(out, usageText(c, widthOf(out)))
		return err
	})
}

// usageText returns the part of the help after the description: calls, examples, commands and flags.
func usageText(c *cobra.Command, width int) string {
	var b strings.Builder
	line := c.UseLine()
	if c.HasAvailableSubCommands() {
		line = c.CommandPath() + " COMMAND [flags]"
	}
	b.WriteString("Usage:\n" + hanging("  ", line, 6, width) + "\n")
	if c.HasExample() {
		b.WriteString("\nExamples:\n" + wrapExamples(c.Example, width) + "\n")
	}
	writeCommands(&b, c, width)
	all := grouped(c)
	shown := all
	if isShort(c) {
		shown = []section{{"Essential flags", lookup(c, Essential[c.Name()]+" help "+HelpAll)}}
	}
	for _, s := range shown {
		if len(s.flags) > 0 {
			b.WriteString("\n" + Reflow(s.title+":", width) + "\n")
		}
		for _, f := range s.flags {
			writeFlag(&b, f, width)
		}
	}
	if isShort(c) {
		n := 0
		for _, s := range all {
			n += len(s.flags)
		}
		b.WriteString("\n" + Reflow(fmt.Sprintf("'%s --%s' explains more, and lists all %d flags in groups.", c.CommandPath(), HelpAll, n), width) + "\n")
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n" + Reflow(fmt.Sprintf("See '%s COMMAND --help' for the flags and examples of a command.", c.CommandPath()), width) + "\n")
	}
	return b.String()
}

// writeCommands writes the subcommands of a command in their groups.
func writeCommands(b *strings.Builder, c *cobra.Command, width int) {
	left := map[string]*cobra.Command{}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			left[sub.Name()] = sub
		}
	}
	write := func(title string, names []string) {
		for _, name := range names {
			sub, ok := left[name]
			if !ok {
				continue
			}
			if title != "" {
				b.WriteString("\n" + title + ":\n")
				title = ""
			}
			delete(left, name)
			b.WriteString(entry("  "+name, sub.Short, 25, width) + "\n")
		}
	}
	for _, g := range commandGroups {
		write(g.title, g.names)
	}
	write("Commands", slices.Sorted(maps.Keys(left)))
}

// flagColumn is the column at which the descriptions of flags begin.
const flagColumn = 30

func writeFlag(b *strings.Builder, f *pflag.Flag, width int) {
	name := "      --" + f.Name
	if f.Shorthand != "" {
		name = "  -" + f.Shorthand + ", --" + f.Name
	}
	kind, about := pflag.UnquoteUsage(f)
	if f.Name == "help" {
		about = "Print this help."
	}
	if kind != "" && kind != "count" {
		name += " " + kind
	}
	switch f.DefValue {
	case "", "false", "0", "[]", "0s":
	default:
		value := f.DefValue
		if f.Value.Type() == "string" {
			value = strconv.Quote(value)
		}
		about += " (default " + strings.Trim(value, "[]") + ")"
	}
	b.WriteString(entry(name, about, flagColumn, width) + "\n")
}

// Choices are the values of the flags that accept one of a few words.
var Choices = map[string][]string{
	"capacity-before-eviction": {"off", "ask"}, compatibility.FlagName: compatibility.Modes(), "hpa": {process.HPALeave, process.HPAIgnore}, "log-format": {"text", "json"}, "make-room": {"off", "shrink", "split", "move"}, "scheduler-resize-preemption": {"auto", "on", "off"},
	"min-tls-version": {"tls1_2", "tls1_3"}, "mover": {"evict", "room", "surge"}, "oom-rescue": {"off", "evict", "delete"}, "storage": {"checkpoint", "prometheus"}, "updater-rules": compatibility.Modes(),
	"web-auth": {"none", "token", "header"},
}

// NewHelpCommand returns "podfit help". Cobra's prints the help of the root command for an unknown name.
func NewHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Print the help of a command",
		RunE: func(c *cobra.Command, args []string) error {
			named, rest, err := c.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = KnownCommand(named, rest)
			}
			if err != nil {
				return err
			}
			named.InitDefaultHelpFlag()
			return named.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, sub := range c.Root().Commands() {
				if len(args) == 0 && sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), typed) {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// comment matches the comment at the end of an example, and the blanks before it.
var comment = regexp.MustCompile(` +# (.*)$`)

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
			out = append(out, terminal.Command(indent, line, len(indent)+4, width)...)
		}
	}
	return strings.Join(out, "\n")
}

func wrapComment(indent, text string, width int) []string {
	begin := indent + "# "
	lines := strings.Split(hanging("", text, 0, width-len(begin)), "\n")
	for i := range lines {
		lines[i] = begin + lines[i]
	}
	return lines
}
