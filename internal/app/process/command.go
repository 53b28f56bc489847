// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"podfit.dev/podfit/internal/compatibility"
)

// Settings is a configuration that reads itself from flags.
type Settings interface {
	Flags(*pflag.FlagSet)
	Validate() error
}

// LongRunning is a command that runs until its context ends.
type LongRunning struct {
	Use, Short, Long, Example string
	Config                    Settings
	Common                    func() *Common
	Address                   func() string
	// Prepare creates the work. It is called before the HTTP server starts, so that all health checks are registered.
	Prepare func(context.Context, *Process) (work func(context.Context) error, err error)
}

// Command returns the command.
func (l LongRunning) Command(s Streams) *cobra.Command {
	c := &cobra.Command{Use: l.Use, Short: l.Short, Long: l.Long, Example: l.Example}
	l.Config.Flags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		common := l.Common()
		err := common.Compatibility.Apply(c.Flags())
		if err != nil {
			return err
		}
		if err := l.Config.Validate(); err != nil {
			return UsageError{Err: err}
		}
		log, closer, err := common.Log.Open(s.Err, s.Terminal)
		if err != nil {
			return UsageError{Err: err}
		}
		defer closer.Close()
		limit, err := heapLimit(os.Getenv)
		if err != nil {
			return UsageError{Err: err}
		}
		if limit > 0 {
			debug.SetMemoryLimit(limit)
		}
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(gcPercent)
		}
		p := New(log, newRegistry())
		p.Terminal = s.Terminal
		if !s.Terminal { // a person knows what was started, and an error of the configuration is the first line
			log.Info("Starting", slog.String("command", "podfit "+l.Use), slog.String("version", BuildVersion()),
				slog.String(compatibility.FlagName, string(common.Compatibility)))
		}
		warnOfDeprecated(log, c.Flags())
		work, err := l.Prepare(c.Context(), p)
		if err != nil {
			return err
		}
		defer context.AfterFunc(c.Context(), func() {
			log.Info("Shutting down; waiting for current work to end", slog.Any("reason", context.Cause(c.Context())))
		})()
		address := l.Address()
		if common.IsTrial() && !c.Flags().Changed("address") {
			address = loopback(address)
		}
		return p.run(c.Context(), address, common.Profiling, work)
	}
	return c
}

// Streams contains the input and output of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // a person reads Err on a terminal
}

// UsageError is an error in the command line.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e UsageError) Unwrap() error { return e.Err }

// ExitError is an error with an exit code of its own. The output of the command is valid.
type ExitError struct {
	Code int
	Err  error
}

// Error implements error.
func (e ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e ExitError) Unwrap() error { return e.Err }

// TerminalSize returns the number of columns and rows of a terminal. ok is false if w is not a terminal.
func TerminalSize(w io.Writer) (columns, rows int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, 0, false
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	return columns, rows, err == nil && columns > 0
}

// Columns returns the width of a text for people: that of a terminal, from 40 to 120, and usual for other outputs.
func Columns(w io.Writer, usual int) int {
	if columns, _, ok := TerminalSize(w); ok {
		return min(max(columns, 40), 120)
	}
	return usual
}

// Version is the version of this binary. The build sets it.
var Version = "dev"

// BuildVersion returns Version. If the build did not set it, it returns the module version and the commit in the build information.
func BuildVersion() string {
	if Version != "dev" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Version
	}
	return versionOf(info)
}

// versionOf returns the version that the build information contains: the module version if there is one, else the commit and its date.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return "dev"
	}
	v := "dev-" + commit[:min(12, len(commit))]
	if settings["vcs.modified"] == "true" {
		v += "-modified"
	}
	if date, _, ok := strings.Cut(settings["vcs.time"], "T"); ok {
		v += " (" + date + ")"
	}
	return v
}
