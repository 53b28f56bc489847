// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/admission"
	"podfit.dev/podfit/internal/app/backtest"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/app/updater"
)

// Streams are where a command reads and writes.
type Streams = process.Streams

// The exit codes of podfit.
const (
	exitOK    = 0
	exitError = 1 // the command failed
	exitUsage = 2 // the command line is invalid
)

// Main runs the command that args name and returns the exit code.
func Main(ctx context.Context, args []string, s Streams) int {
	root := Root(s)
	root.SetArgs(arguments(args))
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(process.UsageError)):
		fmt.Fprintf(s.Err, "podfit: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(s.Err, "podfit: %v\n", err)
		return exitError
	}
}

// arguments inserts the command if the binary has the name of a component, as in upstream's images.
func arguments(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	switch name := filepath.Base(args[0]); name {
	case "recommender", "updater", "admission-controller":
		return append([]string{name}, args[1:]...)
	case "recommender-amd64", "updater-amd64", "admission-controller-amd64":
		return append([]string{strings.TrimSuffix(name, "-amd64")}, args[1:]...)
	}
	return args[1:]
}

// Root returns podfit's command tree.
func Root(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "podfit",
		Short: "Sets the resource requests of containers according to their usage",
		Long: `podfit sets the CPU and memory requests of containers according to their usage. It is a drop-in replacement for the
Kubernetes Vertical Pod Autoscaler (VPA): it uses the same VerticalPodAutoscaler objects, flags and metrics.

podfit has three components. Each can run alone, or all three run in one process with "podfit run":
  recommender            measures usage and writes recommendations to the status of VPA objects
  updater                applies recommendations to running pods, in place where possible
  admission-controller   applies recommendations to new pods`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetGlobalNormalizationFunc(process.Dashes)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return process.UsageError{Err: fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath())}
	})
	for _, c := range commands(s) {
		c.Flags().SetNormalizeFunc(process.Dashes)
		root.AddCommand(c)
	}
	return root
}

// commands returns all commands.
func commands(s Streams) []*cobra.Command {
	return []*cobra.Command{
		recommender.NewCommand(s),
		updater.NewCommand(s),
		admission.NewCommand(s),
		newRunCommand(s),
		backtest.NewCommand(),
		newCRDsCommand(s),
		newVersionCommand(s),
	}
}

func newVersionCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this binary", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(s.Out, "podfit %s %s %s/%s\n", process.BuildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
