// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"

	"github.com/spf13/cobra"
)

// CompleteFlag sets the values that shells offer for a flag. If the flag is a list, they are offered for each item. It panics if the
// command has no such flag.
func CompleteFlag(c *cobra.Command, flag string, values ...string) {
	isList := c.Flags().Lookup(flag).Value.Type() == "stringSlice"
	complete := func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		done := ""
		if i := strings.LastIndex(typed, ","); isList && i >= 0 {
			done = typed[:i+1]
		}
		var out []string
		for _, value := range values {
			if !strings.Contains(","+done, ","+value+",") && strings.HasPrefix(done+value, typed) {
				out = append(out, done+value)
			}
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if isList {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return out, directive
	}
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag has a completion function already
	}
}
