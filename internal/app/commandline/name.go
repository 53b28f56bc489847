// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// CalledAs returns the name under which podfit was called if it is a plugin of kubectl, "" otherwise.
func CalledAs(args []string) string {
	if len(args) > 0 && plainName(args[0]) == "kubectl-podfit" {
		return "kubectl podfit"
	}
	return ""
}

// plainName returns the name of an executable without its folder and the suffix .exe.
func plainName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".exe") }

// Arguments returns the arguments of the command line. If the binary has the name of a component, as in upstream's images, it inserts the
// command.
func Arguments(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	switch name := strings.TrimSuffix(plainName(args[0]), "-amd64"); name {
	case "kubectl_complete-podfit": // kubectl calls this executable for the completion of "kubectl podfit"
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	case "recommender", "updater", "admission-controller":
		return append([]string{name}, args[1:]...)
	}
	return args[1:]
}

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
