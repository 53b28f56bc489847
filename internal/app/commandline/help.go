// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
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

// Essential lists the flags that the help of a long-running command shows first: those that a first installation needs, and all that only
// podfit has.
var Essential = map[string]bool{
	"context": true, "as": true, "namespace": true, "all-namespaces": true, "dry-run": true, "hpa": true, "fit-nodes": true, "max-node-cpu": true, "max-node-memory": true, "log-format": true,
	"replacement-must-fit": true, "oom-rescue": true, "make-room": true, "scheduler-resize-preemption": true, "mover": true, "freeze-configmap": true, "capacity-before-eviction": true, "placeholder-image": true, "provisioning-class": true, "early-passes": true, "updating-condition": true, "eviction-backoff": true, "statefulset-pause": true, "updater-rules": true, "own-conditions": true, compatibility.FlagName: true,
	"capacity-plan": true, "export-recommendations": true, "web-address": true, "web-auth": true, "web-hosts": true, "web-trusted-proxies": true, "web-prices": true, "web-exclude-namespaces": true, "web-unauthenticated": true,
	"prometheus-insecure": true, "prometheus-bearer-token-file": true, "container-namespace-label": true, "container-pod-name-label": true, "container-name-label": true,
	"max-change-per-hour-namespace": true, "max-change-per-hour-cluster": true, "help": true, "help-all": true,

	"kubeconfig": true, "vpa-object-namespace": true, "leader-elect": true, "v": true, "address": true, "feature-gates": true,
	"recommender-name": true, "recommender-interval": true, "storage": true, "prometheus-address": true, "history-length": true,
	"updater-interval": true, "min-replicas": true, "eviction-tolerance": true, "eviction-rate-limit": true,
	"client-ca-file": true, "tls-cert-file": true, "tls-private-key": true, "webhook-service": true, "register-webhook": true,
}

// HelpAll is the flag that prints the help with all flags.
const HelpAll = "help-all"

// Prepare completes a long-running command: it takes no arguments, its help has groups of flags, and shells complete the values of Choices.
func Prepare(c *cobra.Command) {
	c.Args = NoArguments
	c.Flags().Bool(HelpAll, false, "Print this help with all flags, also those that are accepted and have no effect.")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if all, err := c.Flags().GetBool(HelpAll); err == nil && all {
			return c.Help()
		}
		return run(c, args)
	}
	for flag, values := range Choices {
		if c.Flags().Lookup(flag) != nil {
			process.CompleteFlag(c, flag, values...)
		}
	}
}

// flagGroup is a group of flags in the help of a command.
type flagGroup struct {
	title string
	flags []*pflag.Flag
}

// flagGroups returns the groups of the flags of a command, and a note that follows them. Without groups of its own, a long-running command
// has three: essential flags, further flags, and with --help-all those without effect.
func flagGroups(c *cobra.Command) (groups []flagGroup, note string) {
	titles := process.FlagGroups(c)
	longRunning := c.Flags().Lookup(HelpAll) != nil
	if longRunning {
		titles = []string{"Flags", "Further flags, with the names and defaults of the Vertical Pod Autoscaler", "Flags that are accepted for compatibility and have no effect"}
	} else {
		titles = append(titles, "Flags")
	}
	byTitle := map[string]*flagGroup{}
	for _, title := range titles {
		byTitle[title] = &flagGroup{title: title}
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		title := process.FlagGroupOf(f)
		switch {
		case longRunning && process.HasNoEffect(f):
			title = titles[2]
		case f.Hidden:
			return
		case longRunning && !Essential[f.Name]:
			title = titles[1]
		case longRunning || title == "":
			title = "Flags"
		}
		byTitle[title].flags = append(byTitle[title].flags, f)
	})
	for _, title := range titles {
		if g := byTitle[title]; len(g.flags) > 0 {
			groups = append(groups, *g)
		}
	}
	if !longRunning {
		return groups, ""
	}
	if all, err := c.Flags().GetBool(HelpAll); err == nil && all {
		return groups, ""
	}
	hidden := len(byTitle[titles[2]].flags)
	if hidden == 0 {
		return groups, ""
	}
	if hidden == 1 {
		return groups[:len(groups)-1], fmt.Sprintf("1 more flag is accepted for compatibility and has no effect; --%s lists it.", HelpAll)
	}
	return groups[:len(groups)-1], fmt.Sprintf("%d more flags are accepted for compatibility and have no effect; --%s lists them.", hidden, HelpAll)
}

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
		about := c.Long
		if about == "" {
			about = c.Short + "."
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
	groups, note := flagGroups(c)
	for _, g := range groups {
		b.WriteString("\n" + Reflow(g.title+":", width) + "\n")
		for _, f := range g.flags {
			writeFlag(&b, f, width)
		}
	}
	if note != "" {
		b.WriteString("\n" + Reflow(note, width) + "\n")
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

// writeFlag writes a flag with its description.
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
func wrapCommand(indent, command string, width int) []string {
	const ending = ` \`
	l := terminal.Layout{Hanging: len(indent) + 4, Separator: " ", Ending: ending, Width: width, Last: width - len(ending)}
	return l.Lines(indent, shellWord.FindAllString(command, -1))
}
