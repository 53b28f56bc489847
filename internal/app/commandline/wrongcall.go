// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package commandline executes the command that a command line names: by the name of the binary, as in upstream's images or a plugin of
// kubectl, and by its arguments. It answers wrong calls with the remedy, and prints flags in groups in the help. It contains no command of
// podfit.
package commandline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/spelling"
)

// Execute runs the command that args name, and returns it. It makes "podfit help" and "podfit completion" reject unknown names, for which
// cobra's commands print help and succeed.
func Execute(ctx context.Context, root *cobra.Command, args []string) (*cobra.Command, error) {
	root.SetArgs(args)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	ofCobra := map[string]bool{root.Name(): true, "help": true, "completion": true}
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, names []string) error {
				_, _, err := root.Find(names)
				return err
			}
		case "completion":
			c.RunE = root.RunE
		}
	}
	called, err := root.ExecuteContextC(ctx)
	if err != nil && ofCobra[called.Name()] { // these commands only print help
		err = process.UsageError{Err: err}
	}
	return called, err
}

// NoArguments is the Args function of commands that take only flags.
func NoArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return process.UsageError{Err: fmt.Errorf("%s takes no arguments, got %q", c.CommandPath(), args[0])}
}

// FlagError explains why a command line cannot be parsed. It names the most similar flag, and what a flag accepts.
func FlagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		err = fmt.Errorf("%w%s", err, spelling.Hint("--"+unknown.GetSpecifiedName(), known))
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		if accepted := accepts[flag.Value.Type()]; accepted != "" {
			err = fmt.Errorf("--%s must be %s, got %q", flag.Name, accepted, invalid.GetValue())
		} else {
			err = fmt.Errorf("--%s: %w", flag.Name, invalid.Unwrap())
		}
	}
	return process.UsageError{Err: err}
}

// accepts describes the values of flags by type, for types whose own errors are those of package strconv.
var accepts = map[string]string{
	"int": "a whole number", "int32": "a whole number", "int64": "a whole number",
	"uint": "a whole number of at least 0", "float64": "a number", "bool": "true or false", "boolfunc": "true or false", "duration": "a duration such as 90s, 10m or 1h30m",
}

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
