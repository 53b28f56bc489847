// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Settings is a configuration that reads itself from flags.
type Settings interface {
	Flags(*pflag.FlagSet)
	Validate() error
}

// LongRunning is a command that runs until it is told to end.
type LongRunning struct {
	Use, Short, Long string
	Config           Settings
	Common           func() *Common
	Address          func() string
	// Prepare builds the work before anything is served, so that its checks are known.
	Prepare func(*Process) (work func(context.Context) error, err error)
}

// Command returns the command.
func (l LongRunning) Command(s Streams) *cobra.Command {
	c := &cobra.Command{Use: l.Use, Short: l.Short, Long: l.Long, Args: cobra.NoArgs}
	l.Config.Flags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := l.Config.Validate(); err != nil {
			return UsageError{Err: err}
		}
		common := l.Common()
		log, closer, err := common.Log.Open(s.Err)
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
		p := New(log, newRegistry())
		log.Info("Starting", "command", "podfit "+l.Use, "version", BuildVersion())
		warnOfDeprecated(log, c.Flags())
		work, err := l.Prepare(p)
		if err != nil {
			return err
		}
		defer context.AfterFunc(c.Context(), func() { log.Info("Ending: waiting for what is under way", "because", context.Cause(c.Context())) })()
		return p.run(c.Context(), l.Address(), common.Profiling, work)
	}
	return c
}

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// UsageError is an error in the command line.
type UsageError struct{ Err error }

// Error says what the mistake is.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the mistake.
func (e UsageError) Unwrap() error { return e.Err }
