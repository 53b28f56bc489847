// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"regexp"

	"github.com/spf13/cobra"
)

// calls matches podfit where a text calls it: at the beginning of an example, after a pipe or an opening quotation mark.
var calls = regexp.MustCompile(`(?m)(^ *|["'|] *)podfit( [a-z-])`)

// Rename makes help and errors show another name of podfit, such as "kubectl podfit" for the plugin of kubectl.
func Rename(root *cobra.Command, name string) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		c.Example = calls.ReplaceAllString(c.Example, "${1}"+name+"${2}")
		c.Long = quotedCalls.ReplaceAllString(c.Long, "${1}"+name+"${2}")
	}
}

// quotedCalls matches podfit in running text, where it is also the name of the program.
var quotedCalls = regexp.MustCompile(`(")podfit( [a-z-])`)
