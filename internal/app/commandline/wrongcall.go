// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/spelling"
)

// NoArguments is the Args function of commands that take only flags.
func NoArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(c, fmt.Errorf("%s takes no arguments, got %q", c.CommandPath(), args[0]))
}

// KnownCommand is the Args function of the root command. Cobra calls it for a name that is not a command.
func KnownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	return usageError(c, fmt.Errorf("unknown command %q%s", args[0], meant("", spelling.Nearest(args[0], names))))
}

// FlagError explains why a command line cannot be parsed. It names the most similar flag, and what a flag accepts.
func FlagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := strings.ReplaceAll(unknown.GetSpecifiedName(), "_", "-")
		err = fmt.Errorf("unknown flag --%s%s", unknown.GetSpecifiedName(), meant("--", nearestFlag(c, name)))
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		if accepted := accepts[flag.Value.Type()]; accepted != "" {
			err = fmt.Errorf("--%s must be %s, got %q", flag.Name, accepted, invalid.GetValue())
		} else {
			err = fmt.Errorf("--%s: %w", flag.Name, invalid.Unwrap())
		}
	}
	return usageError(c, err)
}

// accepts describes the values of flags by type, for types whose own errors are those of package strconv.
var accepts = map[string]string{
	"int": "a whole number", "int32": "a whole number", "int64": "a whole number",
	"uint": "a whole number of at least 0", "float64": "a number", "bool": "true or false", "duration": "a duration such as 90s, 10m or 1h30m",
}

// nearestFlag returns the flag of a command with the most similar name, "" if none is similar. Dashes are ignored, because they are often
// forgotten.
func nearestFlag(c *cobra.Command, name string) string {
	byPlain := map[string]string{}
	var plain []string
	plainly := func(name string) string { return strings.ReplaceAll(name, "-", "") }
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			byPlain[plainly(f.Name)] = f.Name
			plain = append(plain, plainly(f.Name))
		}
	})
	return byPlain[spelling.Nearest(plainly(name), plain)]
}

// meant returns the hint to a similar name, "" if there is none.
func meant(prefix, name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s%s?)", prefix, name)
}

func usageError(c *cobra.Command, err error) error {
	return process.UsageError{Err: fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath())}
}
