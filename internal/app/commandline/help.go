// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
)

// flagSections is the annotation of a command whose value cobra prints in the place of flags. Template functions would be global.
const flagSections = "podfit.dev/flags"

// SetHelp makes the help of a command and its subcommands list flags in groups. The short form of a help has only the first paragraph of the
// description.
func SetHelp(root *cobra.Command) {
	const flags = "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), flags, `{{index .Annotations "`+flagSections+`"}}`, 1))
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if isShort(c) {
			c.Long, _, _ = strings.Cut(c.Long, "\n\n")
		}
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		const usualWidth = 80 // the line length of flags if the output is not a terminal, as for manual pages
		c.Annotations[flagSections] = flagUsages(c, process.Columns(c.OutOrStdout(), usualWidth))
		help(c, args)
	})
}

// isShort reports whether the short form of the help of a command is printed.
func isShort(c *cobra.Command) bool { return Essential[c.Name()] != "" && !c.Flags().Changed(HelpAll) }

// flagUsages returns the part of the help about flags: the essential ones, or all in their groups.
func flagUsages(c *cobra.Command, width int) string {
	flags := c.LocalFlags()
	groups := FlagGroups
	end := ""
	switch {
	case Essential[c.Name()] == "":
		return "Flags:\n" + strings.TrimRight(flags.FlagUsagesWrapped(width), "\n")
	case isShort(c):
		groups = []FlagGroup{{"Essential flags", Essential[c.Name()] + " help " + HelpAll}}
		end = "Details and all flags: " + c.CommandPath() + " --" + HelpAll
	default:
		ineffective := FlagGroup{Title: "Upstream's flags that are accepted for compatibility and have no effect"}
		flags.VisitAll(func(f *pflag.Flag) {
			if process.HasNoEffect(f) {
				ineffective.Flags += " " + f.Name
			}
		})
		groups = append(groups, ineffective)
	}
	var b strings.Builder
	for _, g := range groups {
		shown := pflag.NewFlagSet(g.Title, pflag.ContinueOnError)
		shown.SortFlags = false
		for name := range strings.FieldsSeq(g.Flags) {
			if f := flags.Lookup(name); f != nil {
				shown.AddFlag(f)
			}
		}
		if shown.HasFlags() {
			b.WriteString(g.Title + ":\n" + shown.FlagUsagesWrapped(width) + "\n")
		}
	}
	return strings.TrimRight(b.String()+end, "\n")
}
