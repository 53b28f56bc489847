// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/spelling"
)

// Execute runs the command that args name, and returns it. It looks for an unknown command first, because cobra reports the unknown flags
// of an unknown command. If a flag is wrong, it looks for further wrong flags.
func Execute(ctx context.Context, newRoot func() *cobra.Command, args []string) (*cobra.Command, error) {
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	found, rest, err := root.Find(args)
	if err == nil && found.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !strings.HasPrefix(rest[0], "__") {
		return found, KnownCommand(found, rest)
	}
	root.SetArgs(args)
	called, err := root.ExecuteContextC(ctx)
	if !errors.As(err, new(process.UsageError)) {
		return called, err
	}
	wrong := wrongFlags(rest, func() *cobra.Command {
		c, _, _ := newRoot().Find(args) // found before
		return c
	})
	if wrong != nil {
		err = process.UsageError{Err: wrong}
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

// KnownCommand is the Args function of commands that only have subcommands: the root command and completion. Its error names the most
// similar subcommand.
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
	return process.UsageError{Err: fmt.Errorf("unknown command %q%s", args[0], meant("", spelling.Nearest(args[0], names)))}
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
	return process.UsageError{Err: err}
}

// wrongFlags returns an error for each flag of a command line that cannot be parsed, nil if there is none. A parser stops at the first, so
// it parses again without the flag, with a new command each time.
func wrongFlags(args []string, newCommand func() *cobra.Command) error {
	var errs []error
	args = slices.Clone(args)
	for {
		at, err := firstWrong(args, newCommand)
		if err == nil {
			return errors.Join(errs...)
		}
		errs = append(errs, err)
		from := at
		if !strings.HasPrefix(args[at], "-") && at > 0 {
			from-- // the flag is before its value
		}
		args = slices.Delete(args, from, at+1)
	}
}

// firstWrong returns the index of the first argument that cannot be parsed.
func firstWrong(args []string, newCommand func() *cobra.Command) (at int, wrong error) {
	for end := 1; end <= len(args); end++ {
		c := newCommand()
		c.InitDefaultHelpFlag()
		c.InitDefaultVersionFlag()
		err := c.ParseFlags(args[:end])
		if err == nil || errors.Is(err, pflag.ErrHelp) || errors.As(err, new(*pflag.ValueRequiredError)) && end < len(args) {
			continue
		}
		return end - 1, FlagError(c, err)
	}
	return 0, nil
}

// Mistakes returns the text of an error in the command line. If it consists of several errors, each has its own line.
func Mistakes(err error) string {
	lines := strings.Split(err.Error(), "\n")
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("the call has %d mistakes:\n  %s", len(lines), strings.Join(lines, "\n  "))
}

// accepts describes the values of flags by type, for types whose own errors are those of package strconv.
var accepts = map[string]string{
	"int": "a whole number", "int32": "a whole number", "int64": "a whole number",
	"uint": "a whole number of at least 0", "float64": "a number", "bool": "true or false", "boolfunc": "true or false", "duration": "a duration such as 90s, 10m or 1h30m",
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
