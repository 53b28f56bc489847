// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settings is a configuration that reads itself from flags.
type settings interface {
	Flags(*pflag.FlagSet)
	Validate() error
}

// longRunning is a command that runs until it is told to end.
type longRunning struct {
	use, short, long string
	config           settings
	common           func() *Common
	address          func() string
	// prepare builds the work before anything is served, so that its checks are known.
	prepare func(*process) (work func(context.Context) error, err error)
}

func (l longRunning) command(s Streams) *cobra.Command {
	c := &cobra.Command{Use: l.use, Short: l.short, Long: l.long, Args: cobra.NoArgs}
	l.config.Flags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := l.config.Validate(); err != nil {
			return usageError{Err: err}
		}
		common := l.common()
		log, closer, err := common.Log.Open(s.Err)
		if err != nil {
			return usageError{Err: err}
		}
		defer closer.Close()
		p := newProcess(log, newRegistry())
		log.Info("Starting", "command", "podfit "+l.use, "version", buildVersion())
		warnOfDeprecated(log, c.Flags())
		work, err := l.prepare(p)
		if err != nil {
			return err
		}
		defer context.AfterFunc(c.Context(), func() { log.Info("Ending: waiting for what is under way", "because", context.Cause(c.Context())) })()
		return p.run(c.Context(), l.address(), common.Profiling, work)
	}
	return c
}

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// usageError is a mistake in how a command was called.
type usageError struct{ Err error }

func (e usageError) Error() string { return e.Err.Error() }

func (e usageError) Unwrap() error { return e.Err }
