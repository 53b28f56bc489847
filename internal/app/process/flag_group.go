// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is the key of the annotation of a flag that contains the title of its group, and of that of a command with all titles.
const flagGroup = "podfit.dev/flag-group"

// GroupFlags puts flags of a command into a group of its help. The groups are shown in the order of the calls, and after them the flags
// without a group. It panics if the command has no such flag.
func GroupFlags(c *cobra.Command, title string, flags ...string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[flagGroup] += title + "\n"
	for _, name := range flags {
		if err := c.Flags().SetAnnotation(name, flagGroup, []string{title}); err != nil {
			panic(err) // there is no such flag
		}
	}
}

// FlagGroups returns the titles of the groups of flags of a command.
func FlagGroups(c *cobra.Command) []string {
	return strings.FieldsFunc(c.Annotations[flagGroup], func(r rune) bool { return r == '\n' })
}

// FlagGroupOf returns the title of the group of a flag, "" if it has none.
func FlagGroupOf(f *pflag.Flag) string {
	return strings.Join(f.Annotations[flagGroup], "")
}

// ineffective is the annotation of flags that are accepted only because existing manifests use them.
const ineffective = "podfit.dev/no-effect"

// Ineffective marks a flag that is accepted only because existing manifests use it.
func Ineffective(fs *pflag.FlagSet, name string) {
	if err := fs.SetAnnotation(name, ineffective, []string{"true"}); err != nil {
		panic(err) // there is no such flag
	}
}

// HasNoEffect reports whether a flag is marked by Ineffective.
func HasNoEffect(f *pflag.Flag) bool { return len(f.Annotations[ineffective]) > 0 }

// Assumed returns the flags with some names that are not on the command line, with their values.
func Assumed(given *pflag.FlagSet, names []string) []string {
	var out []string
	for _, name := range names {
		if f := given.Lookup(name); f != nil && !f.Changed {
			out = append(out, "--"+name+"="+f.Value.String())
		}
	}
	return out
}
